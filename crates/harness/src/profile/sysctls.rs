//! Kernel settings: a closed list, and what the kernel would refuse or understand otherwise.

use serde_yaml::{Location, Spanned};

use super::Sysctls;
use super::scalar;
use super::steps::{Keys, Reader};
use super::yaml::{Entries, Shape, Text};
use crate::sysctl::{DirtySettings, Key, Refused};

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
        self.known(&keys, &Key::ALL.map(Key::name));
        if keys.own().next().is_none() {
            let path = &keys.path;
            let message =
                format!("{path}: at least one is needed ({} changes nothing)", Sysctls::AS_FOUND);
            self.error(shape.referenced, message);
        }
        let (mut settings, mut is_whole) = (DirtySettings::default(), true);
        for (name, text) in keys.own() {
            is_whole &= self.setting(&keys, name, text, &mut settings).is_some();
        }
        // How bytes compare with percents depends on the machine's memory.
        for warning in settings.warnings(None) {
            if let Some(text) = keys.get(warning.key.name()) {
                self.warn(text.referenced, format!("{}: {}", keys.path, warning.words));
            }
        }
        is_whole.then(|| Sysctls { name: name.to_owned(), settings })
    }

    /// Adds one setting; `None` if something is wrong with it, which is told.
    fn setting(
        &mut self,
        keys: &Keys<'_>,
        name: &Text,
        text: &Text,
        into: &mut DirtySettings,
    ) -> Option<()> {
        // What is no setting was told before.
        let key = Key::from_name(&name.value)?;
        let value = self.checked(&format!("{}.{key}", keys.path), text, |text| value(key, text));
        // By its place: it is there twice even if a value of the two is wrong.
        let order = |at: Location| (at.line(), at.column());
        let twin = key.twin().and_then(|twin| Some((twin, keys.place(twin.name())?)));
        if let Some((twin, first)) = twin.filter(|(_, at)| order(*at) < order(name.referenced)) {
            let (refused, line) = (Refused::Twins { key, twin }, self.line(first));
            let message = format!("{}: {refused} ({twin} is set at line {line})", keys.path);
            self.error(name.referenced, message);
            return None;
        }
        let set = into.set(key, value?);
        set.map_err(|refused| self.error(text.referenced, format!("{}: {refused}", keys.path))).ok()
    }
}

/// A value that the kernel takes, and that is no more than [`most`].
fn value(key: Key, text: &str) -> Result<u64, String> {
    let (least, kernels) = key.range();
    let ours = most(key).min(kernels);
    let is_size = matches!(key, Key::BackgroundBytes | Key::Bytes);
    let read = |most: u64| {
        if is_size {
            scalar::size(text, &(0..=most))
        } else {
            scalar::integer(text, &(least..=most))
        }
    };
    let shown = scalar::shortened(text);
    let value = read(ours).map_err(|words| match read(kernels) {
        Ok(_) => format!("{shown} is more than a profile may ask for (at most {ours})"),
        Err(_) => words,
    })?;
    match key {
        Key::Bytes if value < least => {
            Err(format!("{shown} is less than two pages ({least} bytes), which the kernel refuses"))
        }
        Key::BackgroundBytes if value < least => {
            let twin = Key::BackgroundRatio;
            Err(format!("{shown} is refused by the kernel: give {least} or more, or {twin}"))
        }
        _ => Ok(value),
    }
}

/// A rule of ours, where the kernel takes more and does nothing sensible with it: it counts times
/// in milliseconds in 32 bits, and rounds bytes up to pages in 64.
fn most(key: Key) -> u64 {
    match key {
        Key::BackgroundBytes | Key::Bytes => 1 << 50,
        Key::BackgroundRatio | Key::Ratio => 100,
        Key::ExpireCentisecs | Key::WritebackCentisecs => 200_000_000,
    }
}
