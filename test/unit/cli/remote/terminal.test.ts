import { expect } from 'chai';
import fc from 'fast-check';
import { createEscapes, type Typed } from '../../../../src/cli/remote/terminal/escapes.ts';
import { createLeftModes } from '../../../../src/cli/remote/terminal/left-modes.ts';

describe('what is typed at a local terminal', () => {
  const typed = (...pieces: string[]): Typed[] => {
    const read = createEscapes();
    return pieces.flatMap((piece) => read(piece));
  };
  const sent = (...pieces: string[]) =>
    typed(...pieces)
      .map(({ text }) => text)
      .join('');
  const asked = (...pieces: string[]) => typed(...pieces).flatMap((one) => one.asked ?? []);

  it('leaves at ~. at the start of a line only, also in two pieces', () => {
    expect(typed('ls\r~.rm -rf /\r')).to.deep.equal([{ text: 'ls\r', asked: 'leave' }]);
    expect(asked('~.')).to.deep.equal(['leave']);
    expect(asked('\r', '~', '.')).to.deep.equal(['leave']);
    expect(asked('cp ~. x\r')).to.deep.equal([]);
    expect(asked('half a line\u0003~.')).to.deep.equal(['leave']);
  });

  it('sends ~~ as one, and ~ with any other character as it is', () => {
    expect(sent('~~.\r')).to.equal('~.\r');
    expect(sent('cd ~/x\r~/bin/run\r')).to.equal('cd ~/x\r~/bin/run\r');
    expect(sent('~\r~', '.')).to.equal('~\r');
    expect(asked('~?~?')).to.deep.equal(['help', 'help']);
  });

  it('loses nothing else, however it is divided', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (pieces) => {
        const text = pieces.join('');
        fc.pre(!text.includes('~'));
        expect(sent(...pieces)).to.equal(text);
      }),
    );
  });
});

describe('modes that a program has left', () => {
  const left = (...pieces: string[]) => {
    const modes = createLeftModes();
    for (const piece of pieces) modes.see(piece);
    return modes.undo();
  };

  it('are switched back, and those that it has switched back itself are not', () => {
    expect(left('\x1b[?1049h\x1b[?25l text')).to.equal('\x1b[?1049l\x1b[?25h');
    expect(left('\x1b[?1049h\x1b[?25l', 'x', '\x1b[?25h\x1b[?1049l')).to.equal('');
    expect(left('\x1b[?1000;1006h')).to.equal('\x1b[?1000l\x1b[?1006l');
    expect(left('\x1b[?10', '49', 'h')).to.equal('\x1b[?1049l');
  });

  it('are only those that are known, whatever a device writes', () => {
    expect(left('\x1b[?3h\x1b[?999999h\x1b[31m')).to.equal('');
    expect(left(`\x1b[?${'1;'.repeat(100_000)}h`)).to.equal('');
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' })), (pieces) => {
        // oxlint-disable-next-line no-control-regex -- sequences are what this is about
        expect(left(...pieces)).to.match(/^(\x1b\[\?\d+[hl])*$/);
      }),
    );
  });
});
