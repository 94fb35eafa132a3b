//! The users and places of an attack. An attack is a function of a `Scene`; the macros make its
//! tests. The text before the colon names what the control switches off.

/// As an ordinary user and as root, each with the project below `/tmp`, which is private inside,
/// and elsewhere.
macro_rules! everywhere {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user_in_tmp, in_tmp, $control, super::$attack);
            user_test!(as_user_outside_tmp, outside_tmp, $control, super::$attack);
            root_test!(as_root_in_tmp, root_in_tmp, $control, super::$attack);
            root_test!(as_root_outside_tmp, root_outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// Attacks to which the surroundings of the project make no difference.
macro_rules! for_everybody {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, outside_tmp, $control, super::$attack);
            root_test!(as_root, root_outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// Attacks that rely on an obstacle which does not hinder root. So only an ordinary user tries
/// them.
macro_rules! for_user {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// As a user beside a systemd user manager, which only root of the machine can start in namespaces
/// of its own.
macro_rules! for_user_with_cgroups {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            #[test]
            fn as_user() {
                if crate::outcome::is_real_root() {
                    crate::outcome::judge(crate::support::Place::outside_tmp, $control, super::$attack);
                }
            }
        }
    )+ };
}

macro_rules! for_root {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            root_test!(as_root, root_outside_tmp, $control, super::$attack);
        }
    )+ };
}

macro_rules! user_test {
    ($name:ident, $place:ident, $control:literal, $attack:path) => {
        #[test]
        fn $name() {
            crate::outcome::judge(crate::support::Place::$place, $control, $attack);
        }
    };
}

macro_rules! root_test {
    ($name:ident, $place:ident, $control:literal, $attack:path) => {
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            crate::outcome::judge_as_root(name, crate::support::Place::$place, $control, $attack);
        }
    };
}

/// Attacks that root prepares with mounts of its own, in a mount namespace, and that then run as an
/// ordinary user or as root.
macro_rules! with_mounts {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            #[test]
            fn as_user() {
                if crate::outcome::is_real_root() {
                    crate::outcome::judge(crate::support::Place::outside_tmp, $control, super::$attack);
                }
            }
            root_test!(as_root, root_outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// With the project below `/tmp`, where something else there matters.
macro_rules! in_tmp {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, in_tmp, $control, super::$attack);
            root_test!(as_root, root_in_tmp, $control, super::$attack);
        }
    )+ };
}
