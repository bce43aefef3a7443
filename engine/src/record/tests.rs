use super::*;

/// A run that is parked on one request, as the store holds it.
fn parked() -> Record {
    serde_json::from_str(include_str!("parked.json")).unwrap()
}

fn of_format_1(record: &Record) -> Vec<u8> {
    let json = serde_json::to_vec(record).unwrap();
    let length = u32::try_from(json.len()).unwrap().to_be_bytes();
    [&[1][..], &length, &zstd::bulk::compress(&json, 1).unwrap()].concat()
}

#[test]
fn every_format_is_read_and_the_newest_written() {
    let record = parked();
    let written = record.encode().unwrap();
    assert_eq!(written[0], FORMAT_ZSTD_JSON_DICTIONARY);
    assert_eq!(Record::decode(&written).unwrap(), record);
    assert_eq!(Record::decode(&of_format_1(&record)).unwrap(), record);
}

#[test]
fn a_parked_run_is_half_as_long_as_without_the_dictionary() {
    let (with, without) = (parked().encode().unwrap().len(), of_format_1(&parked()).len());
    assert!(2 * with < without, "{with} and {without} bytes");
}

/// What was written with it can be read with no other: add a format, never edit one.
#[test]
fn the_dictionary_is_the_one_that_records_were_written_with() {
    let digest = portcullis_proto::digest::Digest::of_bytes(DICTIONARY);
    let released = "ef92bbfcb258cd7fcc72efb6b9ab9e98668730ccfd2b0874dee7c4aca48af3ff";
    assert_eq!(digest.to_string(), released);
}

#[test]
fn damaged_bytes_are_an_error() {
    let whole = parked().encode().unwrap();
    for length in 0..whole.len() {
        assert!(Record::decode(&whole[..length]).is_err(), "the first {length} bytes");
    }
    let mut other = whole.to_vec();
    other[0] = 3;
    assert!(matches!(Record::decode(&other), Err(RecordError::UnknownFormat(3))));
    other[0] = FORMAT_ZSTD_JSON_DICTIONARY;
    other[1..5].copy_from_slice(&1_u32.to_be_bytes());
    assert!(matches!(Record::decode(&other), Err(RecordError::Compression(_))));
}
