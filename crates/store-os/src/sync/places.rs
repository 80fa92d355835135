//! Tells loom which bytes of a map are touched, so that two threads at one byte are found out.

/// The bytes of one map.
///
/// Only a small map's are told, because each is one of loom's objects.
#[derive(Debug)]
pub(crate) struct Places {
    /// The mutex is never waited for: no thread of a model is interrupted while it has it.
    #[cfg(modelled = "loom")]
    cells: std::sync::Mutex<Vec<loom::cell::UnsafeCell<()>>>,
}

#[cfg(modelled = "loom")]
impl Places {
    pub(crate) fn new(len: usize) -> Self {
        let watched = if len <= 64 { len } else { 0 };
        let cells = std::iter::repeat_with(|| loom::cell::UnsafeCell::new(())).take(watched);
        Self { cells: std::sync::Mutex::new(cells.collect()) }
    }

    pub(crate) fn read(&self, place: usize, len: usize) {
        let cells = self.cells.lock().expect("no closure below panics");
        for cell in cells.iter().skip(place).take(len) {
            cell.with(|_| ());
        }
    }

    pub(crate) fn write(&self, place: usize, len: usize) {
        let cells = self.cells.lock().expect("no closure below panics");
        for cell in cells.iter().skip(place).take(len) {
            cell.with_mut(|_| ());
        }
    }
}

#[cfg(not(modelled = "loom"))]
#[expect(clippy::unused_self, reason = "loom's has a use for it")]
impl Places {
    pub(crate) fn new(_len: usize) -> Self {
        Self {}
    }

    pub(crate) fn read(&self, _place: usize, _len: usize) {}

    pub(crate) fn write(&self, _place: usize, _len: usize) {}
}
