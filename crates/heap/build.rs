//! Compiles the library that goes into measured programs and the one that programs may link with to mark regions, so that the
//! tool carries them along.

use std::{env, fs, path::PathBuf};

const HEADER: &str = "../../include/memwall.h";

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-changed={HEADER}");
    mark_library();
    let library = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("heap.so");
    let mut build = cc::Build::new();
    build.opt_level(2).debug(false).pic(true).warnings(true).extra_warnings(true);
    let mut compile = build.get_compiler().to_command();
    compile.args([
        "-shared",
        "-fvisibility=hidden",
        "-fexceptions",
        "-fno-builtin",
        // Or loops that copy become calls of the C library, which take stack.
        "-fno-tree-loop-distribute-patterns",
        "-Wl,-soname,memwall-heap.so",
        // Every program that starts has to load it: fewer mappings, one page to write to, nothing to run but our own.
        "-Wl,-z,noseparate-code",
        "-Wl,-z,norelro",
        "-Wl,--hash-style=gnu",
        "-nostartfiles",
    ]);
    compile.arg("-o").arg(&library).arg("preload/heap.c").args(["-Wl,--as-needed", "-ldl"]);
    let status = compile.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "cannot compile preload/heap.c ({status:?}); install a C compiler (Debian: gcc libc6-dev)"
    );
}

/// The marks of the header as functions, for languages that include none.
fn mark_library() {
    let source = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("marks.c");
    let header = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(HEADER);
    fs::write(&source, format!("#define MEMWALL_MARK\n#include \"{}\"\n", header.display()))
        .expect("written");
    let mut library = cc::Build::new();
    library.opt_level(2).debug(false).pic(true).cargo_metadata(false).file(source).compile("memwall");
}
