//! Compiles the library that goes into measured programs, so that the tool carries it along.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=preload");
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
