//! Files of another kind that are often found instead of weights and arrays.

/// The bytes that are enough to detect such a file.
pub(super) const KNOWN_BY: usize = 512;

/// Returns the kind of a file that was downloaded by mistake, from its first bytes: a web page or a git-lfs pointer.
pub(super) fn other_kind(beginning: &[u8]) -> Option<&'static str> {
    let bytes = &beginning[..beginning.len().min(KNOWN_BY)];
    if bytes.starts_with(b"version https://git-lfs.github.com/spec/") {
        return Some("a git-lfs pointer; run `git lfs pull`");
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let begins =
        |with: &[u8]| bytes.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let is_page = begins(b"<!doctype html") || begins(b"<html");
    is_page.then_some("an HTML page; check the URL of the download")
}
