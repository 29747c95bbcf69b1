//! What the library that notes allocations meets inside programs.

use super::{
    Fault,
    Tried::{self, Held, Missing},
    place::{Place, said},
};
use prerequisites::Need;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "a C program loads a C++ plugin with its own libstdc++",
        must_hold: "same output and exit code as alone",
        held: plugin_with_libstdcxx,
    },
    Fault {
        name: "a plugin brings its own operator new and delete",
        must_hold: "its own are called, every one of them",
        held: plugin_with_operators,
    },
    Fault {
        name: "an executable has its own malloc and calls reallocarray",
        must_hold: "its blocks stay in its own allocator",
        held: allocator_in_executable,
    },
    Fault {
        name: "another allocator is preloaded (jemalloc, tcmalloc, mimalloc)",
        must_hold: "same output and exit code as alone",
        held: preloaded_allocators,
    },
    Fault {
        name: "the largest file allowed is smaller than a log (ulimit -f)",
        must_hold: "no SIGXFSZ: exit codes as alone",
        held: small_files_only,
    },
];

const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **v) {
    void *plugin = dlopen(v[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) { puts(dlerror()); return 1; }
    return ((int (*)(void))dlsym(plugin, "work"))();
}"#;

fn plugin_with_libstdcxx() -> Tried {
    let place = Place::new();
    let plugin = r#"
        #include <cstdio>
        #include <map>
        #include <new>
        #include <string>
        #include <vector>
        struct alignas(64) Wide { char bytes[64]; };
        extern "C" int work() {
            std::map<int, std::string> all;
            for (int i = 0; i < 1000; i++) all[i] = std::string(100, 'x');
            std::vector<Wide> wide(100);
            char *block = new (std::nothrow) char[100000], *single = new char;
            Wide *one = new Wide, *other = new (std::nothrow) Wide[3];
            int code = (long)one % 64 == 0 && block != nullptr && other != nullptr ? 5 : 6;
            delete[] block; delete single; delete one; delete[] other;
            volatile unsigned long most = ~0ul;
            try { new char[most / 4]; } catch (const std::bad_alloc &) { std::puts("caught"); }
            std::printf("%zu %zu\n", all.size(), wide.size());
            return code;
        }"#;
    let host = place.build("cc", "host", HOST, &["-ldl"]);
    let Some((host, plugin)) =
        host.zip(place.build("c++", "plugin.so", plugin, &["-shared", "-fPIC", "-std=c++17"]))
    else {
        return Missing(Need::Program("c++"));
    };
    place.same_as_alone(&[host.to_str().expect("text"), plugin.to_str().expect("text")]);
    Held
}

fn plugin_with_operators() -> Tried {
    let place = Place::new();
    let plugin = r#"
        #include <cstdio>
        #include <cstdlib>
        #include <new>
        static int made, gone;
        void *operator new(std::size_t size) { made++; return (char *)std::malloc(size + 64) + 64; }
        void operator delete(void *block) noexcept { gone++; std::free((char *)block - 64); }
        void operator delete(void *block, std::size_t) noexcept { gone++; std::free((char *)block - 64); }
        struct Thing { int number; };
        extern "C" int work() {
            for (int i = 0; i < 100; i++) { Thing *volatile thing = new Thing; thing->number = i; delete thing; }
            std::printf("%d made, %d gone\n", made, gone);
            return 0;
        }"#;
    let host = place.build("cc", "host", HOST, &["-ldl"]);
    let Some((host, plugin)) = host.zip(place.build("c++", "plugin.so", plugin, &["-shared", "-fPIC"]))
    else {
        return Missing(Need::Program("c++"));
    };
    let report = place.same_as_alone(&[host.to_str().expect("text"), plugin.to_str().expect("text")]);
    assert!(report.contains("exit code 0"), "{report}");
    Held
}

fn allocator_in_executable() -> Tried {
    let place = Place::new();
    let source = r#"
        #define _GNU_SOURCE
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static char room[1 << 24];
        static size_t used;
        void *malloc(size_t size) {
            size_t *block = (size_t *)(room + used);
            used += (size + 31) / 16 * 16;
            *block = size;
            return block + 2;
        }
        void free(void *block) { if (block && ((char *)block < room || (char *)block >= room + sizeof room)) abort(); }
        void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
        void *realloc(void *block, size_t size) {
            void *new = malloc(size);
            if (block) { size_t old = ((size_t *)block)[-2]; memcpy(new, block, old < size ? old : size); }
            return new;
        }
        int main(void) {
            char *text = malloc(10);
            strcpy(text, "mine");
            text = reallocarray(text, 1000, 30);
            puts(text);
            free(text);
            return text >= room && text < room + sizeof room ? 0 : 9;
        }"#;
    let Some(program) = place.build("cc", "own", source, &["-rdynamic"]) else {
        return Missing(Need::Program("cc"));
    };
    place.same_as_alone(&[program.to_str().expect("text")]);
    Held
}

fn preloaded_allocators() -> Tried {
    let folder = std::path::Path::new("/usr/lib/x86_64-linux-gnu");
    let names = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libmimalloc.so.2.0"];
    let found = names.iter().map(|name| folder.join(name)).filter(|path| path.exists());
    let paths: Vec<_> = found.collect();
    if paths.is_empty() {
        return Missing(Need::OtherAllocator);
    }
    let place = Place::new();
    // What is asked of a block must be asked of the allocator that gave it.
    let source = r#"
        #define _GNU_SOURCE
        #include <malloc.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        static void use(const char *how, void *block, size_t size) {
            size_t usable = malloc_usable_size(block);
            memset(block, 7, usable);
            printf("%s %zu %zu\n", how, size, usable);
            free(block);
        }
        int main(void) {
            for (size_t size = 1; size < 40000000; size = size * 3 + 1) {
                void *block;
                use("malloc", malloc(size), size);
                use("calloc", calloc(size, 1), size);
                use("realloc", realloc(malloc(100), size), size);
                if (posix_memalign(&block, 64, size) == 0) use("posix_memalign", block, size);
                use("aligned_alloc", aligned_alloc(64, (size + 63) / 64 * 64), size);
                use("memalign", memalign(128, size), size);
                use("reallocarray", reallocarray(NULL, size, 2), size);
            }
        }"#;
    let Some(sizes) = place.build("cc", "sizes", source, &[]) else { return Missing(Need::Program("cc")) };
    let script =
        "import json; d = {str(i): list(range(i % 50)) for i in range(5000)}; print(len(json.dumps(d)))";
    for path in paths {
        for words in [&["python3", "-c", script][..], &[sizes.to_str().expect("text")]] {
            let run = |command: &mut std::process::Command| {
                command.args(words).env("LD_PRELOAD", &path).output().expect("it starts")
            };
            let alone = run(&mut place.command("env"));
            let with = run(&mut place.memwall(&["run", "--to", "report.txt", "--"]));
            assert_eq!((said(&with.stdout), with.status), (said(&alone.stdout), alone.status), "{path:?}");
            assert_eq!(said(&with.stderr), said(&alone.stderr), "{path:?}");
        }
    }
    Held
}

fn small_files_only() -> Tried {
    let place = Place::new();
    let source = "#include <stdlib.h>\nint main(void) { for (int i = 0; i < 100000; i++) free(malloc(200000)); return 4; }";
    let Some(program) = place.build("cc", "many", source, &[]) else { return Missing(Need::Program("cc")) };
    // The first: no log at all. The second: one that cannot grow.
    for blocks in [20, 100] {
        let script = format!(
            "$memwall run --to report.txt -- bash -c 'ulimit -f {blocks}; /bin/true; echo $?; {}; echo $?'",
            program.display()
        );
        let output = place.shell(&script);
        assert_eq!(said(&output.stdout), "0\n4\n", "{blocks}: {}", said(&output.stderr));
    }
    Held
}
