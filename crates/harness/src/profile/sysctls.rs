//! Kernel settings: a closed list, and what the kernel would refuse or understand otherwise.

use std::ops::RangeInclusive;

use serde_yaml::{Location, Spanned};

use super::scalar;
use super::steps::{Keys, Reader, Told};
use super::yaml::{Entries, Shape, Text};
use super::{DirtyLimit, Sysctls};

impl Reader {
    /// The kernel settings by name, those with errors as `None`.
    pub(super) fn sysctls(&mut self, shape: &Shape) -> Vec<(String, Option<Sysctls>)> {
        let Some(shapes) = &shape.sysctls else {
            return Vec::new();
        };
        let entries = self.names("sysctls", shapes.referenced, &shapes.value);
        let named = entries.iter().map(|(name, shape)| {
            let path = format!("sysctls.{}", scalar::shortened(&name.value));
            let valid_name = self.name("sysctls", name);
            if name.value == Sysctls::AS_FOUND {
                let message = format!("{path} is the name for changing nothing: choose another");
                self.error(name.referenced, message);
            }
            let sysctls = self.sysctl(&name.value, path, shape, &[]);
            (name.value.clone(), valid_name.and(sysctls))
        });
        named.collect()
    }

    /// One set of kernel settings; `beside` are keys of its file that are none.
    pub(super) fn sysctl(
        &mut self,
        name: &str,
        path: String,
        shape: &Spanned<Entries<Text>>,
        beside: &[&str],
    ) -> Option<Sysctls> {
        let keys = Keys { path, entries: &shape.value.0, beside };
        self.known(&keys, &KEYS);
        if keys.own().next().is_none() {
            let path = &keys.path;
            let message =
                format!("{path}: at least one is needed ({} changes nothing)", Sysctls::AS_FOUND);
            self.error(shape.referenced, message);
        }
        let background =
            self.dirty_limit(&keys, "dirty_background_bytes", "dirty_background_ratio");
        let limit = self.dirty_limit(&keys, "dirty_bytes", "dirty_ratio");
        let expire = self.centisecs(&keys, "dirty_expire_centisecs");
        let writeback = self.centisecs(&keys, "dirty_writeback_centisecs");
        if let (Ok(background), Ok(limit)) = (background, limit) {
            self.background_below_limit(&keys, background, limit);
        }
        Some(Sysctls {
            name: name.to_owned(),
            background: background.ok()?,
            limit: limit.ok()?,
            expire_centisecs: expire.ok()?,
            writeback_centisecs: writeback.ok()?,
        })
    }

    fn dirty_limit(
        &mut self,
        keys: &Keys<'_>,
        bytes_key: &str,
        ratio_key: &str,
    ) -> Result<Option<DirtyLimit>, Told> {
        let bytes = self.optional(keys, bytes_key, None, |text| dirty_bytes(text).map(Some));
        let ratio = self.optional(keys, ratio_key, None, |text| {
            scalar::integer(text, &(0..=100_u32)).map(Some)
        });
        if let (Some(bytes), Some(ratio)) = (keys.place(bytes_key), keys.place(ratio_key)) {
            let order = |at: Location| (at.line(), at.column());
            let (at, other, first) = if order(bytes) > order(ratio) {
                (bytes, ratio_key, ratio)
            } else {
                (ratio, bytes_key, bytes)
            };
            let message = format!(
                "{}: {bytes_key} and {ratio_key} exclude each other in the kernel ({other} is set \
                 at line {})",
                keys.path,
                self.line(first)
            );
            self.error(at, message);
        }
        let (bytes, ratio) = bytes.zip(ratio).ok_or(Told)?;
        Ok(bytes.map(DirtyLimit::Bytes).or(ratio.map(DirtyLimit::Ratio)))
    }

    fn centisecs(&mut self, keys: &Keys<'_>, key: &str) -> Result<Option<u32>, Told> {
        let value =
            self.optional(keys, key, None, |text| scalar::integer(text, &CENTISECS).map(Some));
        value.ok_or(Told)
    }

    /// Warns of what the kernel takes and understands otherwise. How bytes compare with percents
    /// depends on the machine's memory.
    fn background_below_limit(
        &mut self,
        keys: &Keys<'_>,
        background: Option<DirtyLimit>,
        limit: Option<DirtyLimit>,
    ) {
        let (unit, background, limit) = match (background, limit) {
            (Some(DirtyLimit::Bytes(background)), Some(DirtyLimit::Bytes(limit))) => {
                (" bytes", background, limit)
            }
            (Some(DirtyLimit::Ratio(background)), Some(DirtyLimit::Ratio(limit))) => {
                ("%", background.into(), limit.into())
            }
            _ => return,
        };
        let key = if unit == "%" { "dirty_background_ratio" } else { "dirty_background_bytes" };
        if let Some(text) = keys.get(key)
            && background >= limit
        {
            let half = if unit == "%" && limit % 2 == 1 { ".5" } else { "" };
            let message = format!(
                "{}: background {background}{unit} >= limit {limit}{unit}: the kernel will use \
                 half the limit ({}{half}{unit})",
                keys.path,
                limit / 2
            );
            self.warn(text.referenced, message);
        }
    }
}

/// Bytes that the kernel takes as a limit.
fn dirty_bytes(text: &str) -> Result<u64, String> {
    let bytes = scalar::size(text, &(0..=MOST_BYTES))?;
    let least = 2 * u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    if bytes < least {
        let text = scalar::shortened(text);
        return Err(format!(
            "{text} is less than two pages ({least} bytes), which the kernel refuses"
        ));
    }
    Ok(bytes)
}

const KEYS: [&str; 6] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_ratio",
    "dirty_expire_centisecs",
    "dirty_writeback_centisecs",
];

/// The kernel's own range, but that it multiplies it by ten in 32 bits.
const CENTISECS: RangeInclusive<u32> = 0..=200_000_000;
const MOST_BYTES: u64 = 1 << 50;
