//! The kernel that the machine runs: Debian's cloud kernel, from its package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Missing, VmError};
use super::run;

/// An unpacked kernel package.
#[derive(Clone, Debug)]
pub struct Kernel {
    image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// The kernel whose package was unpacked in `folder`.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn find(folder: &Path) -> Result<Self, Missing> {
        let missing = || Missing::Kernel { folder: folder.to_owned() };
        let named = |of: &str, prefix: &str| -> Option<PathBuf> {
            let entries = fs::read_dir(folder.join(of)).ok()?.flatten();
            let names =
                entries.filter(|entry| entry.file_name().to_string_lossy().contains(prefix));
            names.map(|entry| entry.path()).max()
        };
        // Since Debian 13 the modules lie below /usr.
        let modules = named("lib/modules", "").or_else(|| named("usr/lib/modules", ""));
        let image = named("boot", "vmlinuz-").ok_or_else(missing)?;
        Ok(Self { image, modules: modules.ok_or_else(missing)? })
    }

    /// Downloads the package with apt's own tools and unpacks it in `folder`; nothing is installed.
    ///
    /// # Errors
    ///
    /// If apt cannot: it wants `apt-get update` to have been run, and the network.
    pub fn fetch(folder: &Path) -> Result<Self, VmError> {
        if let Ok(kernel) = Self::find(folder) {
            return Ok(kernel);
        }
        fs::create_dir_all(folder).map_err(VmError::io("make", folder))?;
        let depends = run(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
        let package = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "))
            .ok_or_else(|| missing_package(&depends))?;
        run(Command::new("apt-get").args(["-q", "download", package]).current_dir(folder))?;
        let entries = fs::read_dir(folder).map_err(VmError::io("list", folder))?.flatten();
        for file in entries.map(|entry| entry.path()) {
            if file.extension().is_some_and(|extension| extension == "deb") {
                run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder))?;
                fs::remove_file(&file).map_err(VmError::io("remove", &file))?;
            }
        }
        Ok(Self::find(folder)?)
    }

    /// The compressed kernel.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Its release, as the modules' folder is named.
    pub fn release(&self) -> String {
        self.modules.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The contents of the modules called `names` and of what they depend on, in the order to load
    /// them. One that is built into the kernel has no file and is left out.
    pub(super) fn modules(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, VmError> {
        let mut files = Vec::new();
        collect(&self.modules.join("kernel"), &mut files)?;
        let builtin = self.modules.join("modules.builtin");
        let builtin = fs::read_to_string(&builtin).map_err(VmError::io("read", &builtin))?;
        let mut loading = Loading { files, builtin, order: Vec::new() };
        for name in names {
            loading.add(name)?;
        }
        Ok(loading.order)
    }
}

fn missing_package(said: &str) -> VmError {
    let program = "apt-cache depends linux-image-cloud-amd64".to_owned();
    VmError::Command { program, said: format!("no package is named in {said:?}") }
}

struct Loading {
    files: Vec<PathBuf>,
    builtin: String,
    order: Vec<(String, Vec<u8>)>,
}

impl Loading {
    fn add(&mut self, name: &str) -> Result<(), VmError> {
        // In file names a dash may stand for an underscore.
        let is_it = |file: &Path| {
            let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            stem.replace('-', "_") == name.replace('-', "_")
        };
        let is_loaded = self.order.iter().any(|(known, _)| known == name);
        if is_loaded || self.builtin.lines().any(|line| is_it(Path::new(line))) {
            return Ok(());
        }
        let Some(file) = self.files.iter().find(|file| is_it(file)).cloned() else {
            return Err(Missing::Module { name: name.to_owned() }.into());
        };
        let content = fs::read(&file).map_err(VmError::io("read", &file))?;
        for needed in needs(&content) {
            self.add(&needed)?;
        }
        self.order.push((name.to_owned(), content));
        Ok(())
    }
}

/// The modules that a module says it depends on: a text `depends=a,b` between zero bytes.
fn needs(module: &[u8]) -> Vec<String> {
    let mut parts = module.split(|byte| *byte == 0);
    let list = parts.find_map(|part| part.strip_prefix(b"depends=")).unwrap_or_default();
    let names = list.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), VmError> {
    for entry in fs::read_dir(folder).map_err(VmError::io("list", folder))?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a package with the modules `name: depends`.
    fn package(modules: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("boot")).unwrap();
        fs::write(folder.path().join("boot/vmlinuz-6.1"), "").unwrap();
        let kernel = folder.path().join("lib/modules/6.1/kernel/fs");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(folder.path().join("lib/modules/6.1/modules.builtin"), "kernel/fs/ext4.ko\n")
            .unwrap();
        for (name, depends) in modules {
            let content = format!("\x7fELF\0license=GPL\0depends={depends}\0name={name}\0");
            fs::write(kernel.join(format!("{name}.ko")), content).unwrap();
        }
        folder
    }

    #[test]
    fn modules_come_behind_what_they_need_and_once() {
        let folder =
            package(&[("a", ""), ("b-b", "a"), ("c", "b_b,a,ext4"), ("d", "a"), ("e", "gone")]);
        let kernel = Kernel::find(folder.path()).unwrap();
        assert_eq!(kernel.release(), "6.1");
        let names = |wanted: &[&str]| -> Vec<String> {
            kernel.modules(wanted).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&["c", "d"]), ["a", "b_b", "c", "d"]);
        assert_eq!(names(&["ext4"]), [""; 0]);
        let refused = kernel.modules(&["e"]).unwrap_err().to_string();
        assert_eq!(refused, "the kernel's package has no module gone");
    }

    #[test]
    fn a_folder_without_a_kernel_says_how_to_get_one() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Kernel::find(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("--fetch"), "{missing}");
        assert_eq!(missing.lines().count(), 1);
    }
}
