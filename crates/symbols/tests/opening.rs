//! What `Image::open` says of files that are not what they were, or not what they should be.

mod programs;

use std::os::unix::fs::PermissionsExt as _;

use programs::Built;
use symbols::{Identity, Image, ImageError, build_id};

const SMALL: &str = "int main(void) { return 0; }";
const OTHER: &str = "int main(void) { return 1; }";

#[test]
fn a_rebuilt_program_is_not_the_one_recorded() {
    for id in ["--build-id", "--build-id=none"] {
        let flag = format!("-Wl,{id}");
        let built = Built::from_source(SMALL, &[&flag]);
        let recorded = built.image().identity().clone();
        assert_eq!(recorded.build_id.is_some(), id == "--build-id");
        assert!(Image::open(&built.path, Some(&recorded)).is_ok());
        let other = Built::from_source(OTHER, &[&flag]);
        std::fs::remove_file(&built.path).expect("removed");
        std::fs::copy(&other.path, &built.path).expect("copied");
        let error = Image::open(&built.path, Some(&recorded)).expect_err("another program");
        assert!(matches!(error, ImageError::Replaced { .. }), "{error}");
        assert!(error.to_string().contains("was replaced since the recording"));
    }
}

#[test]
fn a_copy_of_the_same_build_is_the_same_program() {
    let built = Built::from_source(SMALL, &[]);
    let copy = built.directory.path().join("copy");
    std::fs::copy(&built.path, &copy).expect("copied");
    assert!(Image::open(&copy, Some(built.image().identity())).is_ok());
}

#[test]
fn a_script_in_the_programs_place_was_put_there_later() {
    let built = Built::from_source(SMALL, &[]);
    let recorded = built.image().identity().clone();
    std::fs::write(&built.path, "#!/bin/sh\n").expect("written");
    assert!(matches!(Image::open(&built.path, Some(&recorded)), Err(ImageError::Replaced { .. })));
    assert!(matches!(Image::open(&built.path, None), Err(ImageError::NotElf { .. })));
}

#[test]
fn what_cannot_be_opened_says_why() {
    let built = Built::from_source(SMALL, &[]);
    let missing = built.directory.path().join("no such file");
    assert!(matches!(Image::open(&missing, None), Err(ImageError::Missing { .. })));
    assert!(matches!(Image::open(&built.path.join("below a file"), None), Err(ImageError::Missing { .. })));
    assert!(matches!(Image::open(built.directory.path(), None), Err(ImageError::NotRegular { .. })));
    assert!(matches!(Image::open("/dev/zero".as_ref(), None), Err(ImageError::NotRegular { .. })));
    std::fs::set_permissions(&built.path, std::fs::Permissions::from_mode(0o000)).expect("allowed");
    match Image::open(&built.path, None) {
        // The superuser reads what it likes.
        Ok(_) => assert!(std::fs::File::open(&built.path).is_ok()),
        Err(error) => assert!(matches!(error, ImageError::Unreadable { .. }), "{error}"),
    }
}

#[test]
fn every_cut_is_noticed() {
    let built = Built::from_source(SMALL, &[]);
    let bytes = std::fs::read(&built.path).expect("readable");
    for len in (0..bytes.len()).step_by(97).chain(0..70) {
        match Image::from_bytes("cut", bytes[..len].to_vec()) {
            Err(ImageError::Truncated { needed, actual, .. }) => {
                assert!(needed > actual && actual == len as u64)
            }
            Err(ImageError::NotElf { .. }) => assert!(len < 4, "{len}"),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    assert!(Image::from_bytes("whole", bytes).is_ok());
}

#[test]
fn bytes_without_a_path_answer_as_the_file_does() {
    let built = Built::new(&["-g"]);
    let printed = built.run();
    let bytes = std::fs::read(&built.path).expect("readable");
    let image = Image::from_bytes("[copied]", bytes.clone()).expect("an image");
    let main = printed.address(&image, "main");
    assert_eq!(image.name(), "[copied]");
    assert_eq!(image.function_at(main), built.image().function_at(main));
    assert_eq!(image.lines_at(main), built.image().lines_at(main));
    assert_eq!(image.identity(), &Identity { build_id: build_id(&bytes), stamp: None });
}

/// Large files are mapped instead of read.
#[test]
fn a_large_file_answers_as_a_small_one_does() {
    let built = Built::new(&["-g"]);
    let printed = built.run();
    let small = built.image();
    let main = printed.address(&small, "main");
    std::fs::File::options()
        .write(true)
        .open(&built.path)
        .and_then(|file| file.set_len(20 << 20))
        .expect("a sparse file");
    let large = built.image();
    assert_eq!(large.function_at(main).expect("found").name, "main");
    assert_eq!(large.function_at(main), small.function_at(main));
    assert_eq!(large.lines_at(main), small.lines_at(main));
    assert!(!large.lines_at(main).is_empty());
}

#[test]
fn an_image_is_shared_between_threads() {
    let built = Built::new(&["-g"]);
    let (image, printed) = (built.image(), built.run());
    let main = printed.address(&image, "main");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(image.function_at(main).expect("found").name, "main");
                assert!(!image.lines_at(main).is_empty());
            });
        }
    });
}
