//! The dimensions of the matrix. Each enum lists itself, so that a new variant is a new row.

use std::fmt;

use agent_sandbox::policy::rule::LayerKind;

macro_rules! dimension {
    ($(#[doc = $doc:literal])* $name:ident { $($variant:ident = $shown:literal),+ $(,)? }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $shown),+ })
            }
        }
    };
}

dimension! {
    /// From least to most restrictive.
    Access { Rw = "rw", Ro = "ro", Exclude = "exclude" }
}
dimension! { Form { Exact = "exact", Glob = "glob" } }
dimension! {
    /// The position of the second rule's path, seen from the first's.
    Relation { Same = "same", Parent = "parent", Child = "child", Grandchild = "grandchild" }
}
dimension! {
    /// The layer of the second rule, compared with the first's.
    Order { Lower = "lower", Same = "same", Higher = "higher" }
}
dimension! {
    /// The file at the deeper of the two paths.
    Target { File = "file", Directory = "directory", Missing = "missing", Symlink = "symlink" }
}
dimension! {
    /// The position of the fixed part of a glob, seen from the folder that has the match.
    Prefix { Above = "above", At = "at", Below = "below" }
}
dimension! {
    /// The path that an exact rule opens in the folder: none, a parent of the file, or another
    /// path, which only makes the walk enter the folder.
    Opened { Nothing = "-", OnTheWay = "way", Beside = "beside" }
}
dimension! { Network { Off = "off", On = "on" } }
dimension! { Docker { Off = "off", On = "on" } }
dimension! { OwnHome { Host = "host", Private = "private" } }
dimension! { OwnBase { Host = "host", Minimal = "minimal" } }
dimension! { Presets { Off = "off", On = "on" } }
dimension! {
    /// The sockets of container engines that the host has.
    Sockets { None = "none", Home = "home", Both = "both" }
}
dimension! {
    /// The rule of the user's file for a folder of the home, such as the one with the socket.
    Around { Silent = "-", Rw = "rw", Exclude = "exclude" }
}

impl Order {
    /// The layers of the first and the second rule.
    pub fn layers(self) -> [LayerKind; 2] {
        match self {
            Order::Lower => [LayerKind::Project, LayerKind::User],
            Order::Same => [LayerKind::Project, LayerKind::Project],
            Order::Higher => [LayerKind::User, LayerKind::Project],
        }
    }
}
