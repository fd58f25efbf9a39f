//! A disk that is full on request.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system in memory; unmounted when dropped.
pub struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// None if this process may not mount.
    pub fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=3m", "memoir-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());

        mounted.then_some(Self { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills all the remaining space.
    pub fn fill(&self) -> PathBuf {
        let filler = self.path().join("filler");
        let error = std::fs::write(&filler, vec![0; 8 * 1024 * 1024]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the service may still be closing its files.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
