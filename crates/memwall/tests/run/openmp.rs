//! Parallel regions of OpenMP, which nobody marks: all the forms in which gcc begins one, libraries that bring a runtime of their own,
//! and those of LLVM, whose runtime has an interface for tools.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::{
    place::{Recorded, memwall},
    regions::{built, region},
};

/// One thread does nearly all, and the other waits for it: at a barrier within the region, and at its end.
const UNEVEN: &str = r#"
    #include <omp.h>
    static void spin(long times) {
        for (volatile long i = 0; i < times; i++) {}
    }
    int main(void) {
        for (int round = 0; round < 30; round++) {
            #pragma omp parallel num_threads(2)
            spin(omp_get_thread_num() == 0 ? 100 : 400000);
        }
        for (int round = 0; round < 10; round++) {
            #pragma omp parallel num_threads(2)
            {
                spin(omp_get_thread_num() == 0 ? 100 : 400000);
                #pragma omp barrier
                spin(1000);
            }
        }
        #pragma omp parallel num_threads(2)
        {
            #pragma omp single
            for (int task = 0; task < 20; task++) {
                #pragma omp task
                spin(100000);
            }
        }
    }
"#;

/// How much the threads differ hangs on what else runs here; that it is this much does not.
fn assert_imbalance_is_of_its_threads(parallel: &Value) {
    let number = |thread: &Value, name: &str| thread[name].as_f64().unwrap_or(0.0);
    let threads = parallel["threads"].as_array().expect("threads");
    let busy: Vec<f64> =
        threads.iter().map(|thread| number(thread, "wall_ns") - number(thread, "waits_ns")).collect();
    let longest = busy.iter().copied().fold(0.0, f64::max);
    let wanted = 1.0 - busy.iter().sum::<f64>() / busy.len() as f64 / longest;
    assert!(parallel["imbalance"].as_f64().is_some_and(|share| (share - wanted).abs() < 1e-9), "{parallel}");
}

#[test]
fn parallel_regions_of_openmp_need_no_marks() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "cc", "openmp.c", UNEVEN, &["-fopenmp"]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    let parallel = region(&found, "main._omp_fn.0");
    assert_eq!((&parallel["visits"], &parallel["is_parallel"]), (&60.into(), &true.into()), "{parallel}");
    assert_eq!(parallel["threads"].as_array().map(Vec::len), Some(2));
    // One thread does nearly all: about half of the longer one's time is missing on average.
    assert_imbalance_is_of_its_threads(parallel);
    // What barriers take nobody tells here.
    assert!(parallel["waits_ns"].is_null(), "{parallel}");
}

/// Every way in which a compiler hands a parallel region to the runtime, each visited twice by two threads.
const FORMS: &str = r#"
    #include <omp.h>
    static void spin(long times) {
        for (volatile long i = 0; i < times; i++) {}
    }
    #define LOOP(name, directive) \
        void name(void) { \
            _Pragma(directive) \
            for (int i = 0; i < 16; i++) spin(i * 100); \
        }
    LOOP(fixed, "omp parallel for num_threads(2) schedule(static)")
    LOOP(dynamic, "omp parallel for num_threads(2) schedule(dynamic)")
    LOOP(guided, "omp parallel for num_threads(2) schedule(guided)")
    LOOP(at_run, "omp parallel for num_threads(2) schedule(runtime)")
    LOOP(monotonic_dynamic, "omp parallel for num_threads(2) schedule(monotonic:dynamic)")
    LOOP(monotonic_guided, "omp parallel for num_threads(2) schedule(monotonic:guided)")
    LOOP(monotonic_at_run, "omp parallel for num_threads(2) schedule(monotonic:runtime)")
    LOOP(nonmonotonic_at_run, "omp parallel for num_threads(2) schedule(nonmonotonic:runtime)")
    void sections(void) {
        #pragma omp parallel sections num_threads(2)
        {
            #pragma omp section
            spin(1000);
            #pragma omp section
            spin(3000);
        }
    }
    long reductions(void) {
        long sum = 0;
        #pragma omp parallel for num_threads(2) reduction(task, + : sum)
        for (int i = 0; i < 16; i++) sum += i;
        return sum;
    }
    int main(void) {
        for (int visit = 0; visit < 2; visit++) {
            fixed(), dynamic(), guided(), at_run(), sections();
            monotonic_dynamic(), monotonic_guided(), monotonic_at_run(), nonmonotonic_at_run();
            if (reductions() != 120) return 1;
        }
        return omp_get_max_threads() < 1;
    }
"#;

#[test]
fn gcc_begins_parallel_regions_in_many_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built(folder.path(), "gcc", "forms.c", FORMS, &["-fopenmp"]) else { return };
    let recorded = Recorded::new(&[], &program, &[]);
    assert!(recorded.output.status.success(), "{}", recorded.stderr());
    let found = recorded.findings();
    let loops = ["fixed", "dynamic", "guided", "at_run", "monotonic_dynamic", "monotonic_guided"];
    let others = ["monotonic_at_run", "nonmonotonic_at_run", "sections", "reductions"];
    for name in loops.iter().chain(&others) {
        let parallel = region(&found, &format!("{name}._omp_fn.0"));
        let threads = parallel["threads"].as_array().map(Vec::len);
        assert_eq!((&parallel["visits"], threads), (&4.into(), Some(2)), "{parallel}");
    }
}

/// A library with parallel regions: how many threads of each number work in them, as the runtime tells that its other calls go to.
const PLUGIN: &str = r#"
    #include <omp.h>
    #include <stdio.h>
    void go(void) {
        int seen[2] = {0, 0};
        #pragma omp parallel num_threads(2)
        {
            #pragma omp atomic
            seen[omp_get_thread_num() & 1]++;
        }
        printf("%d %d\n", seen[0], seen[1]);
        fflush(stdout);
    }
"#;

/// Loads what it is told to, for itself (-), for all (+) or for itself and bound when it is called (=); calls it (!), and closes it (.).
const HOST: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int count, char **words) {
        void *libraries[16];
        for (int index = 1; index < count; index++) {
            char what = words[index][0];
            int which = words[index][1] - '0';
            if (what == '!') ((void (*)(void))dlsym(libraries[which], "go"))();
            if (what == '.') dlclose(libraries[which]);
            if (what == '!' || what == '.') continue;
            libraries[which] = dlopen(words[index] + 2, what == '+' ? RTLD_NOW | RTLD_GLOBAL : what == '-' ? RTLD_NOW : RTLD_LAZY);
            if (libraries[which] == NULL) return puts(dlerror()), 1;
        }
        return dlerror() != NULL;
    }
"#;

/// The library, with gcc's runtime as it is.
fn plugin(folder: &Path) -> Option<std::path::PathBuf> {
    let built = built(folder, "gcc", "plugin.c", PLUGIN, &["-fopenmp", "-shared", "-fPIC"])?;
    let plugin = folder.join("plugin.so");
    fs::rename(built, &plugin).expect("renamed");
    Some(plugin)
}

/// What gcc's runtime is called.
const RUNTIME: &str = "libgomp.so.1";

fn own_runtime(letter: char) -> String {
    RUNTIME.replace('p', &letter.to_string())
}

/// The same with a copy of the runtime under another name, as packages for Python bring theirs.
fn plugin_with_own_runtime(folder: &Path, letter: char) -> Option<std::path::PathBuf> {
    let asked = Command::new("gcc").arg(format!("-print-file-name={RUNTIME}")).output().ok()?;
    let mut bytes = fs::read(String::from_utf8_lossy(&asked.stdout).trim()).ok()?;
    let own = own_runtime(letter);
    while let Some(at) = bytes.windows(RUNTIME.len()).position(|window| window == RUNTIME.as_bytes()) {
        bytes[at..at + RUNTIME.len()].copy_from_slice(own.as_bytes());
    }
    let runtime = folder.join(&own);
    fs::write(&runtime, bytes).expect("written");
    let (source, object) = (folder.join("plugin.c"), folder.join("plugin.o"));
    fs::write(&source, PLUGIN).expect("written");
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-fopenmp", "-fPIC", "-c", "-o"]).arg(&object).arg(&source);
    assert!(compile.status().expect("it starts").success());
    let library = folder.join(format!("plugin_{letter}.so"));
    let mut link = Command::new("gcc");
    link.args(["-shared", "-Wl,-rpath,$ORIGIN", "-o"]).arg(&library).arg(&object).arg(&runtime);
    assert!(link.status().expect("it starts").success());
    Some(library)
}

#[test]
fn libraries_that_bring_their_runtime_keep_their_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let Some(shared) = plugin(path) else { return };
    let own = ['A', 'B'].map(|letter| plugin_with_own_runtime(path, letter));
    let [Some(first), Some(second)] = own else {
        return prerequisites::skip(
            prerequisites::Need::Libgomp,
            "its runtime for OpenMP is not where it says",
        );
    };
    let Some(host) = built(path, "gcc", "host.c", HOST, &["-ldl"]) else { return };
    let [shared, first, second] = [shared, first, second].map(|library| library.display().to_string());
    let (now, lazily, for_all) =
        (|file: &str| format!("-{file}"), |file: &str| format!("={file}"), |file: &str| format!("+{file}"));
    let at = |number: usize, word: String| format!("{}{number}{}", &word[..1], &word[1..]);
    let runtime = |letter: char| path.join(own_runtime(letter)).display().to_string();
    let orders: [&[String]; 6] = [
        &[at(0, now(&shared)), "!0".into()],
        &[at(0, now(&first)), at(1, now(&second)), "!0".into(), "!1".into(), "!0".into()],
        // Bound to its own before the other was there for all, and after.
        &[at(0, now(&first)), at(1, for_all(&second)), "!0".into(), "!1".into()],
        &[at(0, for_all(&second)), at(1, now(&first)), "!1".into(), "!0".into()],
        // Bound when it is first called.
        &[at(0, lazily(&first)), at(1, lazily(&second)), "!0".into(), "!1".into()],
        // Gone, and another in its place. The runtimes stay, whose threads still wait.
        &[
            at(2, now(&runtime('A'))),
            at(3, now(&runtime('B'))),
            at(0, now(&first)),
            "!0".into(),
            ".0".into(),
            at(0, now(&second)),
            "!0".into(),
        ],
    ];
    for order in orders {
        let words: Vec<&str> = order.iter().map(String::as_str).collect();
        let alone = Command::new(&host).args(&words).output().expect("it starts");
        let recorded = Recorded::new(&[], &host, &words);
        let printed = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && printed.starts_with("1 1\n"), "{words:?}: {printed}");
        assert_eq!(recorded.stdout(), printed, "{words:?}: {}", recorded.stderr());
        assert!(recorded.output.status.success(), "{words:?}: {}", recorded.stderr());
        let found = recorded.findings();
        let parallel = region(&found, "go._omp_fn.0");
        let threads = parallel["threads"].as_array().map(Vec::len);
        assert!(threads.is_some_and(|threads| threads > 1), "{words:?}: {parallel}");
    }
}

#[test]
fn an_extension_of_python_keeps_its_threads() {
    if !prerequisites::needs("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(plugin) = plugin(folder.path()) else { return };
    let text = format!("import ctypes\nctypes.CDLL({:?}).go()\n", plugin.display().to_string());
    let python = prerequisites::installed("python3").expect("as asked");
    let recorded = Recorded::new(&[], &python, &["-c", &text]);
    assert_eq!(recorded.stdout(), "1 1\n", "{}", recorded.stderr());
    let parallel = &recorded.findings()["regions"][0];
    assert_eq!((&parallel["visits"], &parallel["name"]), (&2.into(), &"go._omp_fn.0".into()));
}

/// A program of clang with OpenMP; none where either is missing.
fn built_by_clang(folder: &Path, more: &[&str]) -> Option<std::path::PathBuf> {
    if !prerequisites::needs("clang") {
        return None;
    }
    let (empty, nothing) = (folder.join("empty.c"), folder.join("empty"));
    fs::write(&empty, "#include <omp.h>\nint main(void) { return omp_get_num_procs() < 1; }\n")
        .expect("written");
    let mut command = Command::new("clang");
    command.args(["-fopenmp", "-o"]).arg(&nothing).arg(&empty);
    if !command.output().is_ok_and(|output| output.status.success()) {
        prerequisites::skip(prerequisites::Need::Libomp, "clang finds no library for OpenMP");
        return None;
    }
    built(folder, "clang", "openmp.c", UNEVEN, &[&["-fopenmp"], more].concat())
}

#[test]
fn parallel_regions_of_llvm_need_no_marks_and_tell_what_barriers_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = built_by_clang(folder.path(), &[]) else { return };
    let found = Recorded::new(&[], &program, &[]).findings();
    for (name, visits) in [("main (openmp.c:8)", 60), ("main (openmp.c:12)", 20), ("main (openmp.c:19)", 2)] {
        let parallel = region(&found, name);
        assert_eq!(
            (&parallel["visits"], &parallel["is_parallel"]),
            (&visits.into(), &true.into()),
            "{parallel}"
        );
        assert_eq!(parallel["threads"].as_array().map(Vec::len), Some(2), "{parallel}");
    }
    // In the second both threads are there as long; what one of them waits makes the difference.
    for name in ["main (openmp.c:8)", "main (openmp.c:12)"] {
        let parallel = region(&found, name);
        assert_imbalance_is_of_its_threads(parallel);
    }
    let waits = |name: &str| region(&found, name)["waits_ns"].as_u64();
    assert_eq!(waits("main (openmp.c:8)"), Some(0), "at the end of a region it is not in it any more");
    assert!(waits("main (openmp.c:12)").is_some_and(|waits| waits > 0));
    // A thread that works on tasks at a barrier does not wait.
    let tasks = region(&found, "main (openmp.c:19)");
    let (waits, wall) = (tasks["waits_ns"].as_u64(), tasks["wall_ns"].as_u64());
    assert!(waits.zip(wall).is_some_and(|(waits, wall)| waits < wall), "{tasks}");
}

#[test]
fn a_program_with_a_tool_of_its_own_for_openmp_keeps_it() {
    const TOOL: &str = r#"
        #include <omp-tools.h>
        #include <stdio.h>
        static int initialize(ompt_function_lookup_t lookup, int device, ompt_data_t *tool) {
            (void)lookup, (void)device, (void)tool;
            puts("its own tool");
            return 1;
        }
        static void finalize(ompt_data_t *tool) { (void)tool; }
        ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
            static ompt_start_tool_result_t result = {initialize, finalize, {0}};
            (void)version, (void)runtime;
            return &result;
        }
    "#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    if built_by_clang(path, &[]).is_none() {
        return;
    }
    let (source, library) = (path.join("tool.c"), path.join("libtool.so"));
    fs::write(&source, TOOL).expect("written");
    let mut command = Command::new("clang");
    command.args(["-shared", "-fPIC", "-fopenmp", "-o"]).arg(&library).arg(&source);
    assert!(command.status().expect("it starts").success());
    let linked = format!("-Wl,-rpath,{}", path.display());
    let more = ["-Wl,--no-as-needed", &library.display().to_string(), &linked];
    let Some(program) = built_by_clang(path, &more) else { return };
    let recorded = Recorded::new(&[], &program, &[]);
    assert!(recorded.stdout().contains("its own tool"), "{}", recorded.stderr());
    assert!(recorded.findings()["regions"].is_null());
    // The same where the environment names it.
    let Some(program) = built_by_clang(path, &[]) else { return };
    let mut command = memwall();
    command.args(["record", "-o"]).arg(path.join("a.sqlite")).arg("--").arg(&program);
    let output = command.env("OMP_TOOL_LIBRARIES", &library).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("its own tool"));
}
