// Colours of values: viridis, or blue and red around zero; errors by powers of ten.

const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const RED_BLUE = [[5, 48, 97], [67, 147, 195], [209, 229, 240], [247, 247, 247], [253, 219, 199], [214, 96, 77], [103, 0, 31]];
const DECADES = 4;
const FAINT = 0.05;

/** A scale of values: `part` puts a value between 0 and 1, `value` is its inverse. */
export function scale([low, high], logarithmic) {
  if (logarithmic && high > 0) {
    const top = Math.log10(high);
    return {
      colours: VIRIDIS,
      part: (v) => clip(1 + (Math.log10(Math.max(v, 1e-300)) - top) / DECADES),
      value: (p) => 10 ** (top + (p - 1) * DECADES),
    };
  }
  let colours = VIRIDIS;
  if (low < -FAINT * high && high > -FAINT * low) {
    high = Math.max(high, -low);
    low = -high;
    colours = RED_BLUE;
  }
  const width = high - low || 1;
  return { colours, part: (v) => clip((v - low) / width), value: (p) => low + p * width };
}

function clip(part) {
  return Math.min(1, Math.max(0, part));
}

/** Red, green and blue of a part between 0 and 1. */
export function colour(colours, part) {
  const place = part * (colours.length - 1);
  const k = Math.min(Math.floor(place), colours.length - 2);
  return colours[k].map((c, i) => Math.round(c + (place - k) * (colours[k + 1][i] - c)));
}

/** A number in few digits. */
export function short(v) {
  if (v === 0) return "0";
  const size = Math.abs(v);
  return size >= 1e-3 && size < 1e5 ? String(Number(v.toPrecision(4))) : v.toExponential(1);
}
