// Sorts a table by the column whose name is clicked. Without it every table is still complete.
document.querySelectorAll("table.sortable").forEach(function (table) {
  var heads = table.tHead.rows[0].cells;
  Array.from(heads).forEach(function (head, column) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () {
      var down = head.getAttribute("aria-sort") === "ascending";
      Array.from(heads).forEach(function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      var body = table.tBodies[0];
      var key = function (row) {
        var cell = row.cells[column];
        return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
      };
      Array.from(body.rows).sort(function (a, b) {
        var x = key(a), y = key(b), order;
        if (typeof x === "number" && typeof y === "number") { order = x - y; }
        else if (typeof x === "number") { return -1; }
        else if (typeof y === "number") { return 1; }
        else { order = x.localeCompare(y, "en", { numeric: true }); }
        return down ? -order : order;
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
});
