//! The users and places of an attack. An attack is a function of a `Scene`, and a macro makes its
//! tests. The text before the colon names the mitigations that the control switches off.

/// Runs attacks as an ordinary user and as root, each with the project below `/tmp`, which is
/// private inside, and elsewhere.
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

/// Runs attacks as an ordinary user and as root, for which the place of the project does not
/// matter.
macro_rules! for_everybody {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, outside_tmp, $control, super::$attack);
            root_test!(as_root, root_outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// Runs attacks only as an ordinary user. They rely on an obstacle that does not stop root.
macro_rules! for_user {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, outside_tmp, $control, super::$attack);
        }
    )+ };
}

/// Runs attacks as an ordinary user on a host with cgroups for that user. Only root of the machine
/// can prepare such a host in new namespaces.
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

/// Runs attacks as an ordinary user and as root, after root has made mounts in a mount namespace.
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

/// Runs attacks with the project below `/tmp`, because other files in `/tmp` matter.
macro_rules! in_tmp {
    ($control:literal: $($attack:ident),+ $(,)?) => { $(
        mod $attack {
            user_test!(as_user, in_tmp, $control, super::$attack);
            root_test!(as_root, root_in_tmp, $control, super::$attack);
        }
    )+ };
}
