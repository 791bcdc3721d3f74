/**
 * Modes of the local terminal that a program of the device has switched, and that it can no longer switch back when the
 * connection is lost or left: the other screen, a hidden cursor, reports of the mouse. Pure.
 */

/** Modes that are off in a terminal of a shell. */
const OFF = new Set([
  1, 9, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004, 2026, 47, 1047, 1049,
]);
/** Modes that are on: the cursor is shown, and lines wrap. */
const ON = new Set([7, 25]);
/** Longer than any sequence that switches modes. */
const KEPT = 64;

// oxlint-disable-next-line no-control-regex -- a sequence begins with a control character
const SWITCH = /\x1b\[\?(?<modes>[\d;]{1,48})(?<to>[hl])/g;

export interface LeftModes {
  /** Reads what the device shows. */
  see(output: string): void;
  /** The sequences that switch all modes back. */
  undo(): string;
}

export function createLeftModes(): LeftModes {
  const switched = new Map<number, 'h' | 'l'>();
  // A sequence may be divided between two pieces.
  let end = '';
  return {
    see(output) {
      const text = end + output;
      for (const { groups } of text.matchAll(SWITCH)) {
        for (const mode of (groups?.['modes'] ?? '').split(';').map(Number)) {
          if (!OFF.has(mode) && !ON.has(mode)) continue;
          const to = groups?.['to'] === 'h' ? 'h' : 'l';
          if ((to === 'h') === ON.has(mode)) switched.delete(mode);
          else switched.set(mode, to);
        }
      }
      end = text.slice(-KEPT);
    },
    undo() {
      const back = Array.from(switched, ([mode, to]) => `\u001b[?${mode}${to === 'h' ? 'l' : 'h'}`);
      switched.clear();
      return back.join('');
    },
  };
}
