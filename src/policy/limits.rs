//! Limits: how much a command may use, the units in which amounts are written, and the bounds
//! within which an amount makes sense.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::policy::rule::display_as_in_json;

/// The names of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    Time,
    Processes,
    FileSize,
    Output,
    Tmp,
    Memory,
    Cpus,
}

display_as_in_json!(LimitKind);

impl LimitKind {
    pub const ALL: [Self; 7] =
        [Self::Time, Self::Processes, Self::FileSize, Self::Output, Self::Tmp, Self::Memory, Self::Cpus];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    /// An amount as a user writes it.
    pub fn example(self) -> &'static str {
        match self {
            Self::Time => "30m",
            Self::Processes => "512",
            Self::FileSize => "2G",
            Self::Output => "10M",
            Self::Tmp => "1G",
            Self::Memory => "4G",
            Self::Cpus => "2.0",
        }
    }

    /// The units of this limit, each with its factor. Empty if the amount has no unit.
    fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Time => &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)],
            Self::Processes | Self::Cpus => &[],
            Self::FileSize | Self::Output | Self::Tmp | Self::Memory => {
                &[("B", 1), ("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40)]
            }
        }
    }

    /// The smallest and the largest amount.
    fn bounds(self) -> (u64, u64) {
        match self {
            Self::Time => (1, 365 * 86_400_000),
            // No kernel allows more processes.
            Self::Processes => (1, 1 << 22),
            Self::FileSize | Self::Output => (1, 1 << 60),
            // The smallest size is one page.
            Self::Tmp => (1 << 12, 1 << 60),
            // The programs that start the sandbox do not fit into less memory.
            Self::Memory => (16 << 20, 1 << 60),
            Self::Cpus => (1, 8_192 * 100),
        }
    }
}

/// The largest amount of a resource that the command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit {
    kind: LimitKind,
    amount: u64,
}

impl Limit {
    /// The time that the command may run.
    pub fn time(time: Duration) -> Self {
        Self::new(LimitKind::Time, time.as_millis().try_into().unwrap_or(u64::MAX))
    }

    /// The number of processes and threads inside at any moment.
    pub fn processes(count: u64) -> Self {
        Self::new(LimitKind::Processes, count)
    }

    /// The size of a file that the command writes, in bytes.
    pub fn file_size(bytes: u64) -> Self {
        Self::new(LimitKind::FileSize, bytes)
    }

    /// The bytes of standard output and standard error together.
    pub fn output(bytes: u64) -> Self {
        Self::new(LimitKind::Output, bytes)
    }

    /// The bytes of the private `/tmp`.
    pub fn tmp(bytes: u64) -> Self {
        Self::new(LimitKind::Tmp, bytes)
    }

    /// The bytes of memory of all processes inside, without swap.
    pub fn memory(bytes: u64) -> Self {
        Self::new(LimitKind::Memory, bytes)
    }

    /// Processor time in hundredths of a processor: 150 is one and a half.
    pub fn cpus(hundredths: u64) -> Self {
        Self::new(LimitKind::Cpus, hundredths)
    }

    fn new(kind: LimitKind, amount: u64) -> Self {
        Self { kind, amount }
    }

    pub fn kind(self) -> LimitKind {
        self.kind
    }

    /// The amount: milliseconds, processes, bytes, or hundredths of a processor.
    pub fn amount(self) -> u64 {
        self.amount
    }

    /// Reads an amount as a user writes it: `30m`, `512`, `2G`, `1.5`.
    pub fn parse(kind: LimitKind, text: &str) -> Result<Self, LimitError> {
        if text.starts_with('-') {
            return Err(LimitError::Negative { kind, text: text.to_owned() });
        }
        let amount = match kind {
            LimitKind::Cpus => hundredths(text),
            _ => with_unit(kind, text)?,
        };
        let limit = Self::new(kind, amount.ok_or_else(|| LimitError::NoNumber { kind, text: text.to_owned() })?);
        limit.within_bounds(text)
    }

    /// Refuses an amount that is too small or too large to make sense.
    pub fn check(self) -> Result<Self, LimitError> {
        self.within_bounds(&self.value())
    }

    fn within_bounds(self, text: &str) -> Result<Self, LimitError> {
        let (kind, text) = (self.kind(), text.to_owned());
        let (least, most) = kind.bounds();
        let bound = |amount| Self::new(kind, amount).value();
        match self.amount() {
            0 => Err(LimitError::Zero { kind }),
            amount if amount < least => Err(LimitError::TooSmall { kind, text, least: bound(least) }),
            amount if amount > most => Err(LimitError::TooLarge { kind, text, most: bound(most) }),
            _ => Ok(self),
        }
    }

    /// The amount as [`Limit::parse`] reads it, with the largest unit that divides it.
    pub fn value(self) -> String {
        let amount = self.amount();
        if self.kind() == LimitKind::Cpus {
            let (whole, rest) = (amount / 100, amount % 100);
            return format!("{whole}.{rest:02}").trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        let fits = |(_, size): &&(&str, u64)| amount.is_multiple_of(*size) && amount > 0;
        match self.kind().units().iter().rev().find(fits) {
            Some((unit, size)) => format!("{}{unit}", amount / size),
            None => amount.to_string(),
        }
    }
}

/// A decimal number with at most two digits after the point, in hundredths. `None` for any other
/// text; a number that is too large is `u64::MAX`.
fn hundredths(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    if rest.is_empty() || rest.bytes().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_end_matches('0');
    let places = |rest: &str| format!("{rest:0<2}").parse::<u64>().ok();
    let rest = if rest.len() <= 2 { places(rest)? } else { return None };
    Some(digits(whole)?.saturating_mul(100).saturating_add(rest))
}

/// `text` as a number, or `u64::MAX` where it is larger. `None` if it is no number.
fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn with_unit(kind: LimitKind, text: &str) -> Result<Option<u64>, LimitError> {
    let ends = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(ends);
    let Some(number) = digits(number) else { return Ok(None) };
    let units = kind.units();
    let size = match units.iter().find(|(name, _)| *name == unit) {
        Some((_, size)) => *size,
        None if units.is_empty() && unit.is_empty() => 1,
        None if units.is_empty() || unit.starts_with('.') => return Ok(None),
        None if unit.is_empty() => return Err(LimitError::NoUnit { kind, text: text.to_owned() }),
        None => return Err(LimitError::UnknownUnit { kind, text: text.to_owned(), unit: unit.to_owned() }),
    };
    Ok(Some(number.saturating_mul(size)))
}

/// An amount that cannot be a limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    #[error("`{text}` is no amount of `{kind}`")]
    NoNumber { kind: LimitKind, text: String },
    #[error("`{text}` is negative, and `{kind}` cannot be")]
    Negative { kind: LimitKind, text: String },
    #[error("`{text}` has no unit")]
    NoUnit { kind: LimitKind, text: String },
    #[error("`{unit}` in `{text}` is no unit of `{kind}`")]
    UnknownUnit { kind: LimitKind, text: String, unit: String },
    #[error("`{kind}` cannot be 0")]
    Zero { kind: LimitKind },
    #[error("`{text}` is too little: `{kind}` is at least {least}")]
    TooSmall { kind: LimitKind, text: String, least: String },
    #[error("`{text}` is too much: `{kind}` is at most {most}")]
    TooLarge { kind: LimitKind, text: String, most: String },
    #[error("there is no limit called `{name}`")]
    UnknownName { name: String },
    #[error("`{text}` does not say how much")]
    NoValue { text: String },
}

impl LimitError {
    /// The remedy.
    pub fn help(&self) -> String {
        match self {
            Self::Zero { kind: LimitKind::Tmp } => "leave it out for the default".to_owned(),
            Self::Zero { .. } => "leave it out for no limit".to_owned(),
            Self::TooSmall { kind, least, .. } => format!("write `{kind} = {}` or more", quoted(*kind, least)),
            Self::TooLarge { most, .. } => format!("write {most} or less, or leave it out"),
            Self::NoNumber { kind, .. } | Self::Negative { kind, .. } => form(*kind),
            Self::NoUnit { kind, .. } | Self::UnknownUnit { kind, .. } => form(*kind),
            Self::UnknownName { .. } => {
                let names = LimitKind::ALL.map(|kind| kind.to_string());
                format!("name one of these limits: {}", names.join(", "))
            }
            Self::NoValue { .. } => "write `--limit KEY=VALUE`, such as `--limit time=30m`".to_owned(),
        }
    }
}

/// Describes the form in which an amount is written.
pub fn form(kind: LimitKind) -> String {
    let units: Vec<&str> = kind.units().iter().map(|(name, _)| *name).collect();
    let example = quoted(kind, kind.example());
    match (kind, units.split_last()) {
        (_, Some((last, others))) => {
            format!("write a whole number and a unit ({} or {last}), such as {example}", others.join(", "))
        }
        (LimitKind::Cpus, None) => format!("write a number of processors with at most two decimals, such as {example}"),
        (_, None) => format!("write a whole number, such as {example}"),
    }
}

/// An amount as in a configuration file: an amount with a unit is a string.
fn quoted(kind: LimitKind, value: &str) -> String {
    if kind.units().is_empty() { value.to_owned() } else { format!("\"{value}\"") }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind(), self.value())
    }
}

/// Reads `KEY=VALUE`.
impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let (name, value) = text.split_once('=').ok_or_else(|| LimitError::NoValue { text: text.to_owned() })?;
        let kind = LimitKind::named(name).ok_or_else(|| LimitError::UnknownName { name: name.to_owned() })?;
        Self::parse(kind, value)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A limit and its amount, such as `time=30m`." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC Z1
    #[test]
    fn an_amount_is_a_number_with_the_unit_of_its_limit() {
        for (text, limit) in [
            ("time=1500ms", Limit::time(Duration::from_millis(1500))),
            ("time=90s", Limit::time(Duration::from_secs(90))),
            ("time=30m", Limit::time(Duration::from_secs(1800))),
            ("time=365d", Limit::time(Duration::from_secs(365 * 86_400))),
            ("processes=512", Limit::processes(512)),
            ("file-size=2G", Limit::file_size(2 << 30)),
            ("output=7B", Limit::output(7)),
            ("tmp=4K", Limit::tmp(4096)),
            ("memory=16M", Limit::memory(16 << 20)),
            ("cpus=2", Limit::cpus(200)),
            ("cpus=2.0", Limit::cpus(200)),
            ("cpus=0.01", Limit::cpus(1)),
            ("cpus=1.50", Limit::cpus(150)),
        ] {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string().parse(), Ok(limit), "{text}");
        }
    }

    // SPEC Z1
    #[test]
    fn every_other_amount_is_refused_with_the_reason_and_the_remedy() {
        for (text, message, help) in [
            ("time", "`time` does not say how much", "write `--limit KEY=VALUE`, such as `--limit time=30m`"),
            (
                "speed=1",
                "there is no limit called `speed`",
                "name one of these limits: time, processes, file-size, output, tmp, memory, cpus",
            ),
            (
                "time=",
                "`` is no amount of `time`",
                "write a whole number and a unit (ms, s, m, h or d), such as \"30m\"",
            ),
            (
                "time=1.5h",
                "`1.5h` is no amount of `time`",
                "write a whole number and a unit (ms, s, m, h or d), such as \"30m\"",
            ),
            ("time=30", "`30` has no unit", "write a whole number and a unit (ms, s, m, h or d), such as \"30m\""),
            (
                "time=30min",
                "`min` in `30min` is no unit of `time`",
                "write a whole number and a unit (ms, s, m, h or d), such as \"30m\"",
            ),
            (
                "memory=4GB",
                "`GB` in `4GB` is no unit of `memory`",
                "write a whole number and a unit (B, K, M, G or T), such as \"4G\"",
            ),
            (
                "tmp=-1G",
                "`-1G` is negative, and `tmp` cannot be",
                "write a whole number and a unit (B, K, M, G or T), such as \"1G\"",
            ),
            ("output=0B", "`output` cannot be 0", "leave it out for no limit"),
            ("tmp=0G", "`tmp` cannot be 0", "leave it out for the default"),
            ("memory=15M", "`15M` is too little: `memory` is at least 16M", "write `memory = \"16M\"` or more"),
            ("tmp=1B", "`1B` is too little: `tmp` is at least 4K", "write `tmp = \"4K\"` or more"),
            ("time=366d", "`366d` is too much: `time` is at most 365d", "write 365d or less, or leave it out"),
            (
                "file-size=99999999999999999999T",
                "`99999999999999999999T` is too much: `file-size` is at most 1048576T",
                "write 1048576T or less, or leave it out",
            ),
            ("processes=1.5", "`1.5` is no amount of `processes`", "write a whole number, such as 512"),
            ("processes=512K", "`512K` is no amount of `processes`", "write a whole number, such as 512"),
            (
                "cpus=1.555",
                "`1.555` is no amount of `cpus`",
                "write a number of processors with at most two decimals, such as 2.0",
            ),
            (
                "cpus=0.001",
                "`0.001` is no amount of `cpus`",
                "write a number of processors with at most two decimals, such as 2.0",
            ),
            (
                "cpus=1e3",
                "`1e3` is no amount of `cpus`",
                "write a number of processors with at most two decimals, such as 2.0",
            ),
            ("cpus=0.0", "`cpus` cannot be 0", "leave it out for no limit"),
            (
                "cpus=9999999999999999999999",
                "`9999999999999999999999` is too much: `cpus` is at most 8192",
                "write 8192 or less, or leave it out",
            ),
        ] {
            let error = text.parse::<Limit>().expect_err(text);
            assert_eq!((error.to_string().as_str(), error.help().as_str()), (message, help), "{text}");
        }
    }
}
