/** What follows from a part of what was typed. */
export interface LineStep {
  /** What the viewer is shown. */
  echo: string;
  /** A complete line, without its end. */
  line?: string;
  isInterrupt?: true;
  isEnd?: true;
}

/** A line is passed on at this length. */
const LINE_MAX = 8000;
const BACKSPACE = /[\b\u007F]/;
const ERASE = '\b \b';

/**
 * Edits lines as the system's terminal would: for shells that have none and read from a pipe. It shows what is typed,
 * erases, and passes on whole lines. Cursor keys have no effect.
 */
export class LineEditor {
  #line = '';
  /** Whether a control sequence of a key was begun, and has not ended. */
  #sequence = '';

  type(input: string): LineStep[] {
    const steps: LineStep[] = [];
    let echo = '';
    const add = (step: Omit<LineStep, 'echo'>, shown: string) => {
      steps.push({ ...step, echo: echo + shown });
      echo = '';
    };
    for (const character of input.replaceAll('\r\n', '\r')) {
      if (this.#isInSequence(character)) continue;
      if (character === '\r' || character === '\n') add({ line: this.#take() }, '\r\n');
      else if (character === '\u0003') {
        this.#take();
        add({ isInterrupt: true }, '^C\r\n');
      } else if (character === '\u0004') {
        if (this.#line === '') add({ isEnd: true }, '');
      } else if (character === '\u0015') {
        echo += ERASE.repeat(Array.from(this.#line).length);
        this.#line = '';
      } else if (BACKSPACE.test(character)) {
        const characters = Array.from(this.#line);
        if (characters.pop() !== undefined) echo += ERASE;
        this.#line = characters.join('');
      } else if (character >= ' ' || character === '\t') {
        this.#line += character;
        echo += character;
        if (this.#line.length >= LINE_MAX) add({ line: this.#take() }, '\r\n');
      }
    }
    if (echo !== '') steps.push({ echo });
    return steps;
  }

  #take(): string {
    const line = this.#line;
    this.#line = '';
    return line;
  }

  /** Keys such as the cursor keys send an escape sequence (ECMA-48): ESC, `[` or `O`, parameters, and a final letter. */
  #isInSequence(character: string): boolean {
    if (character === '\u001B') {
      this.#sequence = character;
      return true;
    }
    if (this.#sequence === '') return false;
    const isIntroducer = this.#sequence === '\u001B' && (character === '[' || character === 'O');
    this.#sequence = isIntroducer || /[\d;?<>=!]/.test(character) ? this.#sequence + character : '';
    return true;
  }
}
