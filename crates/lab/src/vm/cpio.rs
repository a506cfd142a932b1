//! The archive a Linux kernel unpacks as its first file system: cpio, format "newc" (kernel documentation,
//! `driver-api/early-userspace/buffer-format.rst`).

/// An archive under construction; entries appear in the order they are added, so add folders first.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entry_count: u32,
}

const MODE_FOLDER: u32 = 0o040_755;
const MODE_FILE: u32 = 0o100_755;

impl Archive {
    /// Adds a folder.
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, MODE_FOLDER, &[]);
    }

    /// Adds a file, executable by all.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, MODE_FILE, content);
    }

    /// The finished archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry_count += 1;
        let size_bytes = u32::try_from(content.len()).expect("a kernel module is below 4 GiB");
        let name_bytes = u32::try_from(path.len() + 1).expect("a path is short");
        // inode, mode, uid, gid, links, mtime, size, device and rdev (major, minor each), name, checksum.
        let fields = [self.entry_count, mode, 0, 0, 1, 0, size_bytes, 0, 0, 0, 0, name_bytes, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Name and content both start at a multiple of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_trailer_ends_them() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.file("bin/x", b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let header_bytes = 6 + 13 * 8;
        // "bin\0" after the header is 114 bytes, padded to 116.
        assert_eq!(&bytes[116..122], b"070701");
        assert_eq!(&bytes[116 + 6 + 6 * 8..116 + 6 + 7 * 8], b"00000005");
        assert_eq!(&bytes[116 + header_bytes..116 + header_bytes + 6], b"bin/x\0");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}
