import { expect } from 'chai';
import { LastLines } from '../../../src/watchdog/supervised-child.ts';
import { endedInTrial, withOutput } from '../../../src/watchdog/observation.ts';

const CRASH = { how: 'It ended with exit code 7.', isSilent: false, output: ['first', 'last'] };
const HANG = { how: 'It stopped answering for 40 s and was killed.', isSilent: true, output: [] };

describe('why a release is not used', () => {
  it('names exit code, signal and hang, and ends with the last output', () => {
    expect(endedInTrial(2, [CRASH, CRASH])).to.deep.equal({
      code: 'CRASHED',
      message:
        'The release ended 2 times during its trial. It ended with exit code 7.\nLast output:\nfirst\nlast',
    });
    expect(endedInTrial(2, [HANG, HANG])).to.deep.equal({
      code: 'HUNG',
      message: 'The release ended 2 times during its trial. It stopped answering for 40 s and was killed.',
    });
    expect(endedInTrial(2, [HANG, { ...CRASH, how: 'It was ended by SIGKILL.' }])).to.include({
      code: 'CRASHED',
    });
    expect(endedInTrial(2, []).message).to.include('its watchdog with it');
  });

  it('is no longer than a report may be', () => {
    expect(
      withOutput(
        'It ended.',
        Array.from({ length: 50 }, () => 'x'.repeat(160)),
      ),
    ).to.have.length(2000);
  });
});

describe('the last lines of a program', () => {
  const linesOf = (...texts: string[]) => {
    const last = new LastLines();
    for (const text of texts) last.add(text);
    return last.lines;
  };

  it('are few, short, and complete over the parts in which they come', () => {
    expect(linesOf('one\ntw', 'o\n\nthree')).to.deep.equal(['one', 'two', 'three']);
    const many = linesOf(Array.from({ length: 1000 }, (_, at) => `${at}: ${'x'.repeat(500)}\n`).join(''));
    expect([many.length, many.at(-1)?.length, many.at(-1)?.startsWith('999')]).to.deep.equal([12, 160, true]);
    const megabytes = linesOf('y'.repeat(2_000_000), 'end');
    expect(megabytes).to.deep.equal(['y'.repeat(160)]);
  });

  it('have no secrets and no control characters', () => {
    const token = `magt_${'a'.repeat(46)}`;
    const [line] = linesOf(`\u001b[31mBearer ${token} https://u:p4ssw0rd@host/?token=abc\u001b[0m\n`);
    expect(line).to.not.match(/a{10}|p4ssw0rd|abc|\p{Cc}/u);
  });
});
