import { expect } from 'chai';
import { whyNotHere } from '../../../../../src/agent/capabilities/backup/volume-source.ts';
import { patient, remembering } from '../../../../../src/agent/repository/repository-source.ts';
import { EngineError, type ObjectSource } from '../../../../../src/engine/index.ts';

const NAME = 'a'.repeat(64);
const signal = new AbortController().signal;

/** Answers each request by the next of these. */
function scripted(answers: (() => Promise<Uint8Array>)[]): ObjectSource & { asked: number } {
  const source = {
    asked: 0,
    async *list() {
      yield { name: NAME, size: 1 };
    },
    get() {
      source.asked += 1;
      return (answers.shift() ?? (() => Promise.resolve(new Uint8Array(10))))();
    },
  };
  return source;
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: unknown) => (error instanceof EngineError ? error.code : String(error)),
  );
const unreached = () => Promise.reject(new Error('ECONNRESET'));

describe('the names of files of Linux', () => {
  it('are those that the system of the device can have', () => {
    const latin = Buffer.from([0x63, 0xe9]);
    for (const name of ['a', 'a:b', 'con', String.raw`..\..\x`, 'x.']) {
      expect(whyNotHere(Buffer.from(name), 'linux'), name).to.equal(undefined);
    }
    expect(whyNotHere(latin, 'linux')).to.equal(undefined);
    expect(whyNotHere(latin, 'darwin')).to.contain('UTF-8');
    expect(whyNotHere(Buffer.from('Größe'), 'win32')).to.equal(undefined);
    const refused = ['a:b', String.raw`..\..\x`, 'x.', 'x ', 'a\nb', 'a?', 'C:'];
    // Devices, also with an ending, and with blanks before it. Superscript digits count as digits.
    const devices = ['con', 'NUL.txt', 'nul .txt', 'COM1', 'com¹', 'LPT³.log', 'CONIN$', 'conout$'];
    for (const name of [...refused, ...devices]) {
      expect(whyNotHere(Buffer.from(name), 'win32'), name).to.contain('Windows');
    }
    for (const name of ['console', 'com', 'com10', 'com⁴', 'nul1', 'a con']) {
      expect(whyNotHere(Buffer.from(name), 'win32'), name).to.equal(undefined);
    }
  });
});

describe('the objects of a repository that is read for long', () => {
  it('are asked for again if the store was not reached, and not if it refuses', async () => {
    const busy = () => Promise.reject(new EngineError('DESTINATION_UNREACHABLE'));
    const twice = scripted([unreached, busy]);
    expect((await patient(twice, signal, [1, 1]).get('data', NAME)).byteLength).to.equal(10);
    expect(twice.asked).to.equal(3);
    const never = scripted([unreached, unreached, unreached]);
    expect(await codeOf(patient(never, signal, [1, 1]).get('data', NAME))).to.equal(
      'DESTINATION_UNREACHABLE',
    );
    const refused = scripted([() => Promise.reject(new EngineError('DESTINATION_DENIED'))]);
    expect(await codeOf(patient(refused, signal, [1]).get('data', NAME))).to.equal('DESTINATION_DENIED');
    expect(refused.asked).to.equal(1);
    const stopped = scripted([unreached]);
    const aborted = patient(stopped, AbortSignal.abort(new Error('stopped')), [60_000]).get('data', NAME);
    expect(await codeOf(aborted)).to.equal('Error: stopped');
  });

  it('are kept up to a size, the newest of them', async () => {
    const source = scripted([]);
    const kept = remembering(source, 25);
    const get = (offset: number) => kept.get('data', NAME, { offset, length: 10 });
    for (const offset of [0, 10, 0, 20, 0, 10]) await get(offset);
    // Of 10, which was used least, there was no room.
    expect(source.asked).to.equal(4);
  });
});
