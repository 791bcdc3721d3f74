import { expect } from 'chai';
import { LineEditor } from '../../../../src/agent/capabilities/terminals/line-editor.ts';

describe('the lines that are typed for a shell without a terminal', () => {
  const typed = (...inputs: string[]) => {
    const editor = new LineEditor();
    return inputs.flatMap((input) => editor.type(input));
  };

  it('are shown and passed on as a whole', () => {
    expect(typed('d', 'ir\r')).to.deep.equal([{ echo: 'd' }, { echo: 'ir\r\n', line: 'dir' }]);
    expect(typed('one\r\ntwo\n').map(({ line }) => line)).to.deep.equal(['one', 'two']);
  });

  it('can be corrected, by whole characters', () => {
    expect(typed('a\u{1F600}b\u007F\b\bz\r').at(-1)).to.deep.equal({
      echo: 'a\u{1F600}b\b \b\b \b\b \bz\r\n',
      line: 'z',
    });
    expect(typed('abc\u0015x\r').at(-1)?.line).to.equal('x');
  });

  it('are left by an interrupt, and end the shell only when they are empty', () => {
    expect(typed('rm -r\u0003ls\r')).to.deep.equal([
      { isInterrupt: true, echo: 'rm -r^C\r\n' },
      { line: 'ls', echo: 'ls\r\n' },
    ]);
    expect(typed('x\u0004')).to.deep.equal([{ echo: 'x' }]);
    expect(typed('\u0004')).to.deep.equal([{ isEnd: true, echo: '' }]);
  });

  it('contain no keys and no control characters', () => {
    expect(typed('a\u001B[A\u001B[1;5Cb\u001BOPc\u0007\r').at(-1)?.line).to.equal('abc');
    // A sequence may come in parts.
    expect(typed('a\u001B', '[', 'Db\r').at(-1)?.line).to.equal('ab');
  });

  it('are passed on when they are too long to be kept', () => {
    const lines = typed('y'.repeat(20_000)).flatMap(({ line }) => line ?? []);
    expect(lines.map(({ length }) => length)).to.deep.equal([8000, 8000]);
  });
});
