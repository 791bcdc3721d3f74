import { expect } from 'chai';
import { LiveOutput, CapturedOutput } from '../../../../src/agent/capabilities/scripts.ts';
import { ROWS_PER_FRAME, SCRIPT_OUTPUT_MAX, type CommandRow } from '../../../../src/protocol/index.ts';
import { eventually } from '../../../support/eventually.ts';

type Row = CommandRow<'script.run'>;

describe('the streamed output of a script', () => {
  it('is bounded while the hub does not accept a frame, and says how much was omitted', async () => {
    const frames: (readonly Row[])[] = [];
    let take = () => {};
    const live = new LiveOutput((rows) => {
      frames.push(rows);
      return new Promise((resolve) => {
        take = resolve;
      });
    });
    live.add('stdout', 'first');
    await eventually(
      () => frames,
      (list) => list.length === 1,
    );
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 2000; index++) {
      // A text of its own each time, as a pipe brings them.
      const text = Buffer.alloc(50_000, 'x').toString('latin1');
      live.add(index % 3 === 0 ? 'stderr' : 'stdout', text);
    }
    live.add('stdout', 'last');
    expect(process.memoryUsage().heapUsed - before).to.be.below(30_000_000);
    expect(frames).to.have.length(1);
    take();
    await eventually(
      () => frames,
      (list) => list.length === 2,
    );
    const [, second = []] = frames;
    expect(second.length).to.be.within(1, ROWS_PER_FRAME);
    const text = second.map((row) => row.text).join('');
    expect(text.length).to.be.below(65_000);
    expect(text).to.match(/^\[… 99\d{6} characters are not shown …\]\n/);
    expect(text.endsWith('last')).to.equal(true);
  });

  it('is sent in frames of limited length when the streams alternate', async () => {
    const frames: (readonly Row[])[] = [];
    const live = new LiveOutput(async (rows) => void frames.push(rows));
    for (let index = 0; index < 5000; index++) live.add(index % 2 === 0 ? 'stderr' : 'stdout', `${index}\n`);
    live.end();
    for (const frame of frames) expect(frame.length).to.be.below(ROWS_PER_FRAME + 1);
    expect(frames.at(-1)!.at(-1)!.text).to.equal('4999\n');
  });
});

describe('the output of a script in its result', () => {
  it('does not depend on how the bytes are chunked', () => {
    const text = `${'aé😀\u0001'.repeat(60_000)}end`;
    const whole = new CapturedOutput();
    whole.add(Buffer.from(text));
    const expected = whole.end();
    expect(expected.text.length).to.be.within(SCRIPT_OUTPUT_MAX - 1, SCRIPT_OUTPUT_MAX);
    expect(expected.isCut).to.equal(true);
    for (const size of [1, 7, 4096]) {
      const pieces = new CapturedOutput();
      const bytes = Buffer.from(text);
      for (let from = 0; from < bytes.length; from += size) pieces.add(bytes.subarray(from, from + size));
      expect(pieces.end(), `in pieces of ${size}`).to.deep.equal(expected);
    }
  });

  it('is complete up to the limit', () => {
    const captured = new CapturedOutput();
    captured.add(Buffer.from('x'.repeat(SCRIPT_OUTPUT_MAX)));
    expect(captured.end()).to.deep.equal({ text: 'x'.repeat(SCRIPT_OUTPUT_MAX), isCut: false });
    const over = new CapturedOutput();
    over.add(Buffer.from(`${'x'.repeat(SCRIPT_OUTPUT_MAX)}y`));
    expect(over.end()).to.deep.equal({ text: `${'x'.repeat(SCRIPT_OUTPUT_MAX - 1)}y`, isCut: true });
  });
});
