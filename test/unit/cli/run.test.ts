import { expect } from 'chai';
import { Writable } from 'node:stream';
import { type CommandIo, written } from '../../../src/cli/io.ts';
import { createOutput } from '../../../src/cli/remote/output.ts';
import { run, runMuster, startCommand } from '../../support/run-muster.ts';

describe('a command of muster, run in the process of its caller', () => {
  it('prints help to standard output with exit code 0, and an invalid call to standard error with 2', async () => {
    const help = await runMuster(['--help']);
    expect([help.code, help.err]).to.deep.equal([0, '']);
    expect(help.out)
      .to.match(/^Usage: muster /)
      .and.contain('completion');
    const ofCommand = await runMuster(['audit', 'verify', '--help']);
    expect([ofCommand.code, ofCommand.err]).to.deep.equal([0, '']);
    expect(ofCommand.out).to.contain('--bundle <file>');
    for (const [args, message] of [
      [[], /^Usage: muster /],
      [['nonsense'], /unknown command 'nonsense'/],
      [['devices', '--wrong'], /unknown option '--wrong'/],
      [['jobs', 'watch', '--org', 'x'], /must be an id/],
    ] as const) {
      const ran = await runMuster(args);
      expect([ran.code, ran.out], args.join(' ')).to.deep.equal([2, '']);
      expect(ran.err).to.match(message);
    }
  });

  it('prints its version, and says what may have been meant, at each depth', async () => {
    const version = await runMuster(['--version']);
    expect(version.code).to.equal(0);
    expect(version.out).to.match(/^\d+\.\d+\.\d+\n$/);
    for (const [words, meant] of [
      [['devces'], 'devices'],
      [['devices', 'restrat', 'PC'], 'restart'],
      [['devices', '--statsu', 'online'], '--status'],
      [['services', 'stp'], 'stop'],
      [['scripts', 'run', 'x', '--dryrun'], '--dry-run'],
      [['releases', 'ad'], 'add'],
    ] as const) {
      const { code, err } = await runMuster(words);
      expect([code, err], words.join(' ')).to.satisfy(
        ([ended, text]: [number, string]) => ended === 2 && text.includes(`(Did you mean ${meant}?)`),
      );
    }
  });

  it('prints the completion of each shell', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, out } = await runMuster(['completion', shell]);
      expect(code, shell).to.equal(0);
      expect(out, shell).to.contain('follow').and.contain('once');
    }
  });

  it('asks for nothing if there is no terminal', async () => {
    const ran = await runMuster(['login', '--server', 'https://rmm.example.com']);
    expect(ran).to.deep.equal({
      code: 2,
      out: '',
      err: 'There is no terminal to type the key at. Pipe it in, with --key-stdin.\n',
    });
  });

  it('wraps help at the width of a terminal', async () => {
    const widest = async (columns: number) => {
      const { out } = await startCommand((io) => {
        const stdout = Object.assign(io.stdout, { isTTY: true, columns });
        return run(['doctor', '--help'], { ...io, stdout });
      }).ended;
      return Math.max(...out.split('\n').map((line) => line.length));
    };
    expect(await widest(90)).to.be.within(70, 90);
    expect(await widest(150)).to.be.within(91, 150);
  });

  it('returns when all of its output is written, even if that takes a while', async () => {
    let text = '';
    const slow = new Writable({
      decodeStrings: false,
      write(piece: string, _encoding, done) {
        setTimeout(() => {
          text += piece;
          done();
        }, 5);
      },
    });
    const { code } = await startCommand((io) => run(['--help'], { ...io, stdout: slow })).ended;
    expect(code).to.equal(0);
    expect(text).to.match(/^Usage: muster [^]*completion/);
  });
});

describe('output of remote commands', () => {
  const outputTo = async (stdout: Writable) => {
    const texts: string[] = [];
    const { ended, err } = startCommand(async (io: CommandIo) => {
      const output = createOutput({ ...io, stdout }, {});
      output.line('a line');
      output.remark('a remark');
      await written(stdout);
      texts.push(output.unread.aborted ? 'unread' : 'read');
      return 0;
    });
    await ended;
    return { state: texts.join(), err: err() };
  };

  it('comes to its end when its output is read no more, and no remark follows', async () => {
    const broken = new Writable({
      write: (_piece, _encoding, done) => done(Object.assign(new Error('broken pipe'), { code: 'EPIPE' })),
    });
    expect(await outputTo(broken)).to.deep.equal({ state: 'unread', err: '' });
    const whole = new Writable({ write: (_piece, _encoding, done) => done() });
    expect(await outputTo(whole)).to.deep.equal({ state: 'read', err: 'a remark\n' });
  });

  it('that cannot be written fails the command, whatever it is; one that is read no more does not', async () => {
    const refusing = (code: string) =>
      new Writable({
        write: (_piece, _encoding, done) => done(Object.assign(new Error('no'), { code })),
      });
    const helpTo = async (stdout: Writable) => {
      const { code, err } = await startCommand((io) => run(['--help'], { ...io, stdout })).ended;
      return { code, err };
    };
    expect(await helpTo(refusing('ENOSPC'))).to.deep.equal({
      code: 2,
      err: 'The output cannot be written (ENOSPC).\n',
    });
    expect(await helpTo(refusing('EPIPE'))).to.deep.equal({ code: 0, err: '' });
    expect(await outputTo(refusing('ENOSPC'))).to.deep.equal({ state: 'unread', err: '' });
  });
});
