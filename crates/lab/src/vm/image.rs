//! The kernel out of its self-extracting image. QEMU starts an uncompressed Linux kernel directly (by its PVH
//! entry); without a processor to help, unpacking it inside the machine takes longer than all the rest of the
//! start.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a kernel image says where its compressed kernel is: the boot protocol's `setup_sects`,
/// `payload_offset` and `payload_length` (Linux, Documentation/arch/x86/boot.rst).
const SETUP_SECTORS_AT: usize = 0x1f1;
const MAGIC_AT: usize = 0x202;
const PAYLOAD_OFFSET_AT: usize = 0x248;
const PAYLOAD_LENGTH_AT: usize = 0x24c;
const SECTOR_BYTES: usize = 512;

/// Unpacks the kernel of `image` into `file`. `false` if it cannot be had so (another way of packing, no
/// program to unpack it, a kernel that can only start by its image); the image itself then starts, slower.
pub(super) fn unpack(image: &Path, file: &Path) -> bool {
    let Ok(bytes) = fs::read(image) else { return false };
    let Some(payload) = payload(&bytes) else { return false };
    let Some(kernel) = unpacked(payload, file) else { return false };
    can_start_directly(&kernel) && fs::write(file, kernel).is_ok()
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?) as usize);
    if image.get(MAGIC_AT..MAGIC_AT + 4)? != b"HdrS" {
        return None;
    }
    let setup_sectors = match usize::from(*image.get(SETUP_SECTORS_AT)?) {
        0 => 4,
        count => count,
    };
    let start = ((setup_sectors + 1) * SECTOR_BYTES).checked_add(number(PAYLOAD_OFFSET_AT)?)?;
    image.get(start..start.checked_add(number(PAYLOAD_LENGTH_AT)?)?)
}

/// The payload's content, by the program for its kind. Its length stands in its last four bytes, which make
/// the programs complain of what comes after the end.
fn unpacked(payload: &[u8], scratch: &Path) -> Option<Vec<u8>> {
    let tool = match payload {
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        [0x1f, 0x8b, ..] => "gzip",
        _ => return None,
    };
    let length = u32::from_le_bytes(payload.last_chunk::<4>().copied()?);
    fs::write(scratch, payload).ok()?;
    let input = File::open(scratch).ok()?;
    let output = Command::new(tool).arg("-dc").stdin(input).stderr(Stdio::null()).output().ok()?;
    (output.stdout.len() == length as usize).then_some(output.stdout)
}

/// Whether it is an ELF file with the note that QEMU looks for: `Xen`, type 18 (`XEN_ELFNOTE_PHYS32_ENTRY`).
fn can_start_directly(kernel: &[u8]) -> bool {
    const NOTE: [u8; 8] = [18, 0, 0, 0, b'X', b'e', b'n', 0];
    kernel.starts_with(b"\x7fELF") && kernel.windows(NOTE.len()).any(|window| window == NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of the boot protocol with this payload.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR_BYTES];
        image[SETUP_SECTORS_AT] = 1;
        image[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET_AT..PAYLOAD_OFFSET_AT + 4].copy_from_slice(&512_u32.to_le_bytes());
        let length = payload.len() as u32;
        image[PAYLOAD_LENGTH_AT..PAYLOAD_LENGTH_AT + 4].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn the_payload_is_found_by_the_boot_protocol() {
        assert_eq!(payload(&image(b"packed")), Some(b"packed".as_slice()));
        assert_eq!(payload(b"no kernel"), None);
        let mut cut = image(b"packed");
        cut.pop();
        assert_eq!(payload(&cut), None);
    }

    #[test]
    fn what_cannot_be_unpacked_is_left_packed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("image");
        fs::write(&file, image(b"another way of packing")).unwrap();
        assert!(!unpack(&file, &folder.path().join("kernel")));
        assert!(!unpack(&folder.path().join("none"), &folder.path().join("kernel")));
    }
}
