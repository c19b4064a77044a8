//! Compiles the contract without protoc: protox parses, tonic generates.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files =
        ["session", "front", "runner", "operator"].map(|name| format!("proto/gatehouse/v1/{name}.proto"));
    for file in &files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(&files, ["proto"])?;
    tonic_prost_build::configure()
        .build_client(std::env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .compile_fds(descriptors)?;
    Ok(())
}
