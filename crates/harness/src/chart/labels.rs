//! Where a label can stand without covering what the chart shows.

/// A box of pixels: left, top, right, bottom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

impl Area {
    /// The box that reaches `by` pixels from a point to all sides.
    pub(super) fn about(at: (i32, i32), by: i32) -> Self {
        Self::spanning(at, at, by)
    }

    /// The box about the straight line between two points, on either axis.
    pub(super) fn spanning(from: (i32, i32), to: (i32, i32), by: i32) -> Self {
        Self {
            left: from.0.min(to.0) - by,
            top: from.1.min(to.1) - by,
            right: from.0.max(to.0) + by,
            bottom: from.1.max(to.1) + by,
        }
    }

    fn shared_with(&self, other: &Self) -> i32 {
        let wide = self.right.min(other.right) - self.left.max(other.left);
        let high = self.bottom.min(other.bottom) - self.top.max(other.top);
        wide.max(0) * high.max(0)
    }

    fn size(&self) -> i32 {
        (self.right - self.left) * (self.bottom - self.top)
    }
}

/// What is already drawn within a frame, and how bad it is to cover it.
#[derive(Debug)]
pub(super) struct Crowd {
    frame: Area,
    taken: Vec<(Area, i32)>,
}

impl Crowd {
    /// Nothing drawn yet.
    pub(super) fn new(frame: Area) -> Self {
        let taken = Vec::new();
        Self { frame, taken }
    }

    /// A mark or a text, which must not be covered.
    pub(super) fn add_solid(&mut self, area: Area) {
        self.taken.push((area, SOLID));
    }

    /// A line, which may be crossed if there is no other place.
    pub(super) fn add_line(&mut self, from: (i32, i32), to: (i32, i32)) {
        // Slanted lines are followed in steps: the box around a whole one would be mostly empty.
        let steps = if from.0 == to.0 || from.1 == to.1 { 1 } else { 16 };
        let between = |a: i32, b: i32, step: i32| a + (b - a) * step / steps;
        let at = |step| (between(from.0, to.0, step), between(from.1, to.1, step));
        for step in 0..steps {
            self.taken.push((Area::spanning(at(step), at(step + 1), 1), 2));
        }
    }

    /// The place for a text of this size near a mark: its left and its vertical middle.
    ///
    /// `body` is the mark with its error bars, beside which a text is out of their way.
    pub(super) fn place_near(
        &mut self,
        mark: (i32, i32),
        body: Area,
        size: (i32, i32),
    ) -> (i32, i32) {
        self.place(&places_near(mark, body, size), size)
    }

    /// The same where that covers no mark or text and stays in the frame, else `None`: a label that
    /// cannot be read makes another unreadable as well. Lines may be crossed.
    pub(super) fn free_place_near(
        &mut self,
        mark: (i32, i32),
        body: Area,
        size: (i32, i32),
    ) -> Option<(i32, i32)> {
        let place = self.best(&places_near(mark, body, size), size);
        let area = area(place, size);
        let solid = self.taken.iter().filter(|(_, weight)| *weight == SOLID);
        let covered = solid.map(|(taken, _)| area.shared_with(taken)).sum::<i32>();
        let lost = covered + area.size() - area.shared_with(&self.frame);
        // Boxes are a little larger than what is in them.
        if lost * 10 > area.size() {
            return None;
        }
        self.add_solid(area);
        Some(place)
    }

    /// The least bad of these places, the earlier of equals, which is then taken.
    pub(super) fn place(&mut self, places: &[(i32, i32)], size: (i32, i32)) -> (i32, i32) {
        let place = self.best(places, size);
        self.add_solid(area(place, size));
        place
    }

    fn best(&self, places: &[(i32, i32)], size: (i32, i32)) -> (i32, i32) {
        // A later place is further off and tells less well which mark is meant.
        let far = (0_i32..).step_by(4);
        let cost = |place: (i32, i32), far: i32| self.cost(&area(place, size)) + far;
        let best = places.iter().zip(far).min_by_key(|(place, far)| cost(**place, *far));
        *best.expect("a label has at least one place to stand").0
    }

    fn cost(&self, area: &Area) -> i32 {
        let outside = area.size() - area.shared_with(&self.frame);
        let covered = self.taken.iter().map(|(taken, weight)| area.shared_with(taken) * weight);
        outside * 20 + covered.sum::<i32>()
    }
}

/// The box of a text of this size whose left and vertical middle are here.
fn area((left, middle): (i32, i32), size: (i32, i32)) -> Area {
    Area {
        left,
        top: middle - size.1 / 2,
        right: left + size.0,
        bottom: middle + size.1 - size.1 / 2,
    }
}

/// Where a text may stand that belongs to a mark, the best first.
fn places_near(mark: (i32, i32), body: Area, size: (i32, i32)) -> Vec<(i32, i32)> {
    let (x, y) = mark;
    let (wide, high) = size;
    let mut places = Vec::new();
    for (left, right) in [(x - 8, x + 8), (body.left - 5, body.right + 5)] {
        for dy in [0, -6, 6] {
            places.extend([(right, y + dy), (left - wide, y + dy)]);
        }
    }
    for dy in [high / 2 + 7, high + 11] {
        for left in [x - wide / 2, x + 4, x - 4 - wide] {
            places.extend([(left, y - dy), (left, y + dy)]);
        }
    }
    places
}

/// How bad it is to cover a mark or a text, by pixel.
const SOLID: i32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd() -> Crowd {
        Crowd::new(Area::spanning((0, 0), (200, 100), 0))
    }

    fn place(crowd: &mut Crowd, mark: (i32, i32)) -> (i32, i32) {
        crowd.place_near(mark, Area::about(mark, 6), (20, 10))
    }

    #[test]
    fn a_label_stands_to_the_right_if_nothing_is_there() {
        assert_eq!(place(&mut crowd(), (50, 50)), (58, 50));
    }

    #[test]
    fn a_label_avoids_marks_texts_and_the_edge() {
        let mut crowd = crowd();
        crowd.add_solid(Area::about((70, 50), 6));
        assert_eq!(place(&mut crowd, (50, 50)), (22, 50));
        let (left, middle) = place(&mut crowd, (50, 50));
        assert!(middle != 50 && left >= 0, "{left} {middle}");
        let (left, _) = place(&mut crowd, (199, 20));
        assert!(left + 20 <= 200, "{left}");
    }

    #[test]
    fn a_label_without_a_free_place_is_left_out() {
        let free =
            |crowd: &mut Crowd, mark| crowd.free_place_near(mark, Area::about(mark, 6), (20, 10));
        let mut crowd = crowd();
        crowd.add_line((50, 50), (90, 50));
        assert_eq!(free(&mut crowd, (50, 50)), Some((22, 50)), "not on the line");
        crowd.add_solid(Area::about((100, 50), 40));
        assert_eq!(free(&mut crowd, (100, 50)), None, "all around is taken");
        // What is left out takes no place.
        assert_eq!(free(&mut crowd, (180, 20)), Some((152, 20)));
        let narrow = &mut Crowd::new(Area::spanning((0, 0), (15, 10), 0));
        assert_eq!(free(narrow, (7, 5)), None, "the frame is smaller");
    }

    #[test]
    fn a_label_stands_beyond_the_error_bars() {
        let mut crowd = crowd();
        crowd.add_line((30, 50), (90, 50));
        let body = Area::spanning((30, 50), (90, 50), 0);
        assert_eq!(crowd.place_near((60, 50), body, (20, 16)), (95, 50));
    }

    #[test]
    fn a_slanted_line_takes_only_its_own_pixels() {
        let mut crowd = crowd();
        crowd.add_line((0, 0), (160, 80));
        let far = Area::about((140, 10), 5);
        let near = Area::about((80, 40), 5);
        assert_eq!(crowd.cost(&far), 0);
        assert!(crowd.cost(&near) > 0);
    }
}
