//! Vectors in memory: the order, the bound of the first pass, odd input, memory.

use super::*;

fn filled(rows: u16, dims: usize) -> Matrix {
    let mut matrix = Matrix::new(dims);
    let mut state = 7u32;
    for _ in 0..rows {
        let vector: Vec<f32> = (0..dims)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 32_768.0 - 1.0
            })
            .collect();
        assert!(matrix.push(&vector));
    }

    matrix
}

#[test]
fn the_nearest_equal_those_of_a_full_sort() {
    let matrix = filled(900, 37);
    let query = matrix.row(5).unwrap();
    let mut all: Vec<Hit> = (0..900)
        .map(|row| Hit {
            matrix: 0,
            row,
            cosine: matrix.cosine(&query, row).unwrap(),
        })
        .collect();

    all.sort_by(better);
    let near = matrix.nearest(&query, 10, |_| true);
    assert!(
        near.iter()
            .zip(&all)
            .all(|(found, wanted)| found.row == wanted.row)
    );

    assert!(near.len() == 10 && near[0].row == 5 && (near[0].cosine - 1.0).abs() < 1e-5);
    assert!(
        matrix
            .nearest(&query, 2_000, |row| row > 5)
            .iter()
            .all(|hit| hit.row > 5)
    );
}

#[test]
fn the_error_of_the_upper_bytes_stays_within_the_bound() {
    for dims in [1, 37, 256, 3_072] {
        let matrix = filled(300, dims);
        let query = matrix.row(9).unwrap();
        let asked = Query::new(&query);
        for row in 0..300 {
            let (upper, _, factor) = matrix.parts(row).unwrap();
            let (most, cosine) = (
                asked.most(upper, factor),
                matrix.cosine(&query, row).unwrap(),
            );
            assert!(cosine <= most, "{dims} {row}: {cosine} {most}");
            let doubt = asked.doubt.0 * factor + asked.doubt.1;
            assert!(
                most - 2.0 * doubt <= cosine,
                "{dims} {row}: {cosine} {most}"
            );
        }
    }
}

#[test]
fn the_bound_holds_for_the_worst_lower_bytes() {
    // The lower bytes add as much as they can, for a vector with one high number.
    for dims in [2_u16, 256, 3_072] {
        let sign = |place: u16| if place.is_multiple_of(3) { -1.0 } else { 1.0 };
        let query: Vec<f32> = (0..dims).map(sign).collect();
        let number = |place: u16| match (place, sign(place) > 0.0) {
            (0, _) => -i16::MAX,
            (_, true) => 255,
            (_, false) => -256,
        };
        let mut bytes = 1.0_f32.to_le_bytes().to_vec();
        bytes.extend((0..dims).flat_map(|place| number(place).to_le_bytes()));
        let mut matrix = Matrix::new(usize::from(dims));
        assert!(matrix.push_bytes(&bytes));
        let asked = Query::new(&query);
        let (upper, _, factor) = matrix.parts(0).unwrap();
        let cosine = matrix.cosine(&asked.exact, 0).unwrap();
        let most = asked.most(upper, factor);
        assert!(cosine <= most, "{dims}: {cosine} {most}");
    }
}

#[test]
fn the_first_pass_cannot_overflow() {
    // The largest sum: every number of row and query is the highest.
    let mut matrix = Matrix::new(100_000);
    let vector = vec![-1.0; 100_000];
    assert!(matrix.push(&vector));
    let near = matrix.nearest(&vector, 1, |_| true);
    assert!((near[0].cosine - 1.0).abs() < 1e-3, "{near:?}");
    assert_eq!(matrix.nearest(&vec![1.0; 100_000], 1, |_| true).len(), 1);
}

#[test]
fn ties_go_to_the_lower_row() {
    let mut matrix = Matrix::new(2);
    for _ in 0..50 {
        matrix.push(&[1.0, 1.0]);
    }

    let near = matrix.nearest(&[1.0, 0.0], 3, |_| true);
    assert!(near.iter().map(|hit| hit.row).eq(0..3));
}

#[test]
fn several_matrices_are_searched_as_one() {
    let whole = filled(900, 37);
    let (mut first, mut second) = (Matrix::new(37), Matrix::new(37));
    for row in 0..900 {
        let part = if row < 500 { &mut first } else { &mut second };
        assert!(part.push_row(&whole, row));
    }

    assert!(!first.push_row(&whole, 900) && !Matrix::new(3).push_row(&whole, 0));
    let query = whole.row(700).unwrap();
    let near = nearest_in(&[&first, &second], &query, 50, |_, _| true);
    let rows = near.iter().map(|hit| hit.row + 500 * hit.matrix);
    let wanted = whole.nearest(&query, 50, |_| true);
    assert!(rows.eq(wanted.iter().map(|hit| hit.row)));
}

#[test]
fn odd_vectors_are_harmless() {
    let mut matrix = Matrix::new(2);
    assert!(!matrix.push(&[1.0]) && matrix.push(&[0.0, 0.0]));
    assert!(matrix.push(&[f32::NAN, 1.0]));
    assert!(matrix.push(&[3.0, 4.0]));
    assert!(matrix.nearest(&[1.0], 5, |_| true).is_empty());
    assert!(matrix.nearest(&[0.0, 0.0], 5, |_| true).is_empty());

    assert_eq!(matrix.nearest(&[3.0, 4.0], 5, |_| true)[0].row, 2);
}

#[test]
fn memory_stays_near_the_data() {
    assert!(filled(20_000, 64).bytes() <= 20_000 * (64 * 2 + 4) + BLOCK * 2 + BLOCK / 16);
}
