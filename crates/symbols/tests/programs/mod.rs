//! Small C programs, built by the test that asks about them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use symbols::Image;
use tempfile::TempDir;

/// Prints the run-time addresses of its parts, then its own mappings.
pub const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long initialised[100] = {1};
static char zeroed[4096];
static const int constant[8] = {3};

/* Hand-written assembly without type or size. */
__asm__(".text\n.globl bare_label\nbare_label:\n nop\n nop\n nop\n ret\n"
        ".globl bare_next\n.type bare_next, @function\nbare_next:\n ret\n.size bare_next, 1\n");
extern void bare_label(void);

static inline __attribute__((always_inline)) long inlined(long x) {
    return x * 31 + initialised[x & 7]; /* the inlined line */
}

__attribute__((noinline)) static long hidden(long x) {
    return inlined(x) ^ 5; /* the line of the call */
}

__attribute__((noinline, visibility("default"))) long shown(long x) {
    return hidden(x) + 1;
}
extern long same(long) __attribute__((alias("shown"), visibility("default")));
extern long __same(long) __attribute__((alias("shown"), visibility("default")));

static long chosen_a(long x) { return x + 1; }
static void *choose(void) { return (void *)chosen_a; }
long indirect(long) __attribute__((ifunc("choose")));

static void print_mappings(void) {
    char line[600];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) printf("map %s", line);
    if (maps) fclose(maps);
}

int main(int argc, char **argv) {
    char *heap = malloc(argc * 100);
    memset(heap, 1, argc * 100);
    zeroed[argc] = heap[1];
    printf("main %p\n", (void *)main);
    printf("hidden %p\n", (void *)hidden);
    printf("shown %p\n", (void *)shown);
    printf("bare_label %p\n", (void *)bare_label);
    printf("choose %p\n", (void *)choose);
    printf("initialised %p\n", (void *)initialised);
    printf("zeroed %p\n", (void *)zeroed);
    printf("constant %p\n", (void *)constant);
    printf("value %ld\n", shown(argc) + indirect(argc) + (long)(size_t)argv % 2 + constant[argc] + zeroed[argc]);
    print_mappings();
    return 0;
}
"#;

/// A program in its own directory.
pub struct Built {
    pub directory: TempDir,
    pub path: PathBuf,
}

/// Runs a tool in a directory and insists on success.
pub fn tool(directory: &Path, program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).current_dir(directory).output().expect("the tool starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Built {
    /// Compiles [`SOURCE`] with these flags.
    pub fn new(flags: &[&str]) -> Self {
        Self::from_source(SOURCE, flags)
    }

    pub fn from_source(source: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("program.c"), source).expect("a source file");
        let mut arguments =
            vec!["-O1", "-fcf-protection=none", "-Wl,--build-id", "-o", "program", "program.c"];
        arguments.extend(flags);
        tool(directory.path(), "cc", &arguments);
        Self { path: directory.path().join("program"), directory }
    }

    pub fn tool(&self, program: &str, arguments: &[&str]) {
        tool(self.directory.path(), program, arguments);
    }

    /// No debug file of this machine takes part.
    pub fn image(&self) -> Image {
        Image::open(&self.path, None).expect("an image").with_debug_root(self.directory.path().join("debug"))
    }

    /// Runs it.
    pub fn run(&self) -> Printed {
        let output = Command::new(&self.path).output().expect("the program runs");
        assert!(output.status.success());
        Printed {
            text: String::from_utf8(output.stdout).expect("text"),
            path: std::fs::canonicalize(&self.path).expect("a path"),
        }
    }
}

/// What the program said.
pub struct Printed {
    text: String,
    path: PathBuf,
}

impl Printed {
    /// The run-time address of one of its parts.
    pub fn run_time(&self, part: &str) -> u64 {
        let line = self.text.lines().find_map(|line| line.strip_prefix(part)?.strip_prefix(" 0x"));
        u64::from_str_radix(line.expect("a printed part"), 16).expect("an address")
    }

    /// Start, end and file offset of each mapping of the program.
    pub fn mappings(&self) -> Vec<(u64, u64, u64)> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("map "));
        let own = lines.filter(|line| line.ends_with(&self.path.display().to_string()));
        own.map(|line| {
            let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').expect("a range");
            (number(start), number(end), number(fields[2]))
        })
        .collect()
    }

    /// The image's address of one of its parts, through mapping and file offset as for a sample.
    pub fn address(&self, image: &Image, part: &str) -> u64 {
        let at = self.run_time(part);
        let (start, _, offset) =
            *self.mappings().iter().find(|(start, end, _)| (*start..*end).contains(&at)).expect("a mapping");
        image.address_of_offset(at - start + offset).expect("an address in a segment")
    }

    /// The image's address of one of its parts, through the bias.
    pub fn biased(&self, image: &Image, part: &str) -> u64 {
        let biases: Vec<u64> =
            self.mappings().iter().filter_map(|(start, _, offset)| image.bias(*start, *offset)).collect();
        assert!(!biases.is_empty());
        self.run_time(part).wrapping_sub(biases[0])
    }
}
