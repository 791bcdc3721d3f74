import { chmod, lstat, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import {
  openPrivateFolder,
  faultOf,
  openWindowsFolder,
} from '../../../../src/agent/os/files/private-folder.ts';
import { systemProgram } from '../../../../src/agent/os/child-process.ts';
import { agentCommand } from '../../../support/agent-program.ts';
import { temporaryFolder } from '../../../support/agent/collect.ts';

const refusalOf = async (work: Promise<unknown>) =>
  work.then(
    () => 'not refused',
    (error: unknown) => String(error),
  );

describe('agent: its private folder', () => {
  let folder: string;
  let remove: () => Promise<void>;
  let data: string;

  beforeEach(async () => {
    ({ folder, remove } = await temporaryFolder());
    data = path.join(folder, 'agent');
  });
  afterEach(() => remove());

  const ownedBy = (uids: Record<string, number>) => ({
    uid: 1000,
    stat: async (file: string) => {
      const { mode } = await lstat(file);
      return { mode, isDirectory: () => true, uid: uids[file] ?? 0 };
    },
  });

  it('is created for its user only, and read access of other users is removed', async () => {
    expect(await openPrivateFolder(data)).to.equal(data);
    expect((await lstat(data)).mode & 0o777).to.equal(0o700);
    await chmod(data, 0o755);
    await openPrivateFolder(data);
    expect((await lstat(data)).mode & 0o777).to.equal(0o700);
  });

  it('is refused when other users can write to it, or to a folder above it that is not sticky', async () => {
    await mkdir(data);
    await chmod(data, 0o770);
    expect(await refusalOf(openPrivateFolder(data))).to.contain('other users can write to it');
    await chmod(data, 0o700);
    await chmod(folder, 0o777);
    expect(await refusalOf(openPrivateFolder(data))).to.contain(`other users can write to ${folder}`);
    await chmod(folder, 0o1777);
    expect(await openPrivateFolder(data)).to.equal(data);
  });

  it('is refused when it, or a folder above it, belongs to another user', async () => {
    await mkdir(data);
    expect(await refusalOf(openPrivateFolder(data, ownedBy({ [data]: 1001 })))).to.contain('user 1001');
    expect(await refusalOf(openPrivateFolder(data, ownedBy({ [data]: 0 })))).to.contain('user 0');
    const above = ownedBy({ [data]: 1000, [folder]: 1001 });
    expect(await refusalOf(openPrivateFolder(data, above))).to.contain('user 1001');
    expect(await openPrivateFolder(data, ownedBy({ [data]: 1000, [folder]: 1000 }))).to.equal(data);
  });

  it('is checked at the target of a link, and used by that path', async () => {
    await mkdir(data, { mode: 0o700 });
    await symlink(data, path.join(folder, 'link'));
    expect(await openPrivateFolder(path.join(folder, 'link'))).to.equal(data);
    await chmod(data, 0o777);
    expect(await refusalOf(openPrivateFolder(path.join(folder, 'link')))).to.contain('other users can write');
  });

  it('is checked before an enrollment key is used up and before the agent starts', async () => {
    await mkdir(data);
    await chmod(data, 0o777);
    const enroll = ['enroll', '--server', 'http://127.0.0.1:1', '--key', 'k', '--data-dir', data];
    const { code, output } = await agentCommand(enroll);
    expect([code, output.includes('other users can write to it')], output).to.deep.equal([1, true]);
    const run = await agentCommand(['run', '--data-dir', data]);
    expect([run.code, run.output.includes('other users can write to it')], run.output).to.deep.equal([
      1,
      true,
    ]);
  });

  describe('on Windows (with recorded programs)', () => {
    const USER = 'S-1-5-21-1-2-3-1001';
    const GOOD = `O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;${USER})`;
    const INHERITED = 'O:BAG:SYD:AI(A;OICIID;FA;;;SY)(A;OICIID;FA;;;BA)(A;CIID;DCLCRPCR;;;BU)';
    const calls: string[][] = [];
    const windows = (sddl: (folder: string) => string) => {
      calls.length = 0;
      return async (name: string, args: readonly string[], env: Record<string, string> = {}) => {
        calls.push([name, ...args.map((arg) => arg.replace(/agent\.\w+$/, 'agent.NEW'))]);
        if (name === 'whoami') return `"machine\\me","${USER}"\r\n`;
        return name === 'powershell' ? `${sddl(env['MUSTER_FOLDER'] ?? '')}\r\n` : '';
      };
    };
    const draft = () => path.join(folder, 'agent.NEW');

    it('gets its rights before its name: for the system, administrators and its user only', async () => {
      await openWindowsFolder(
        data,
        windows(() => GOOD),
      );
      expect(calls.filter(([name]) => name === 'icacls')).to.deep.equal([
        ['icacls', draft(), '/setowner', '*S-1-5-32-544'],
        [
          'icacls',
          draft(),
          '/inheritance:r',
          '/grant:r',
          '*S-1-5-18:(OI)(CI)F',
          '/grant:r',
          '*S-1-5-32-544:(OI)(CI)F',
          '/grant:r',
          `*${USER}:(OI)(CI)F`,
        ],
      ]);
      expect(await readdir(folder)).to.deep.equal(['agent']);
    });

    it('is not created when its rights differ from those that were set', async () => {
      const refused = await refusalOf(
        openWindowsFolder(
          data,
          windows(() => INHERITED),
        ),
      );
      expect(refused).to.contain('inherits rights');
      expect(await readdir(folder)).to.deep.equal([]);
    });

    it('is only checked when it exists, and created again when it is empty and unsafe', async () => {
      await mkdir(data);
      await openWindowsFolder(
        data,
        windows(() => GOOD),
      );
      expect(calls.map(([name]) => name)).to.deep.equal(['whoami', 'powershell']);
      const madeByOthers = windows((of) => (of === data ? INHERITED : GOOD));
      await openWindowsFolder(data, madeByOthers);
      expect(calls.map(([name]) => name)).to.include('icacls');
      await writeFile(path.join(data, 'settings.json'), '{}');
      const refused = await refusalOf(openWindowsFolder(data, madeByOthers));
      expect(refused).to.contain('is not safe').and.contain('inherits rights');
      await rm(data, { recursive: true });
    });

    it('is refused for a foreign owner, rights of others, and a missing access control list', () => {
      const trusted = ['S-1-5-18', 'S-1-5-32-544', USER];
      expect(faultOf(GOOD, trusted)).to.equal(undefined);
      expect(faultOf(GOOD.replace('O:BA', 'O:S-1-5-21-1-2-3-1002'), trusted)).to.contain('belongs to');
      expect(faultOf(GOOD.replace(';;;SY', ';;;BU'), trusted)).to.equal('BU has rights in it.');
      expect(faultOf(`${GOOD}(OA;;CCDC;;;S-1-1-0)`, trusted)).to.equal('S-1-1-0 has rights in it.');
      expect(faultOf(`${GOOD}(D;;FA;;;BG)`, trusted)).to.equal(undefined);
      expect(faultOf('O:BAG:SYD:PAI', trusted)).to.contain('no access control list');
      expect(faultOf('O:BAG:SY', trusted)).to.contain('no access control list');
      expect(faultOf('', trusted)).to.contain('belongs to nobody');
    });

    it('uses full paths for system programs', () => {
      expect(systemProgram('icacls', 'win32')).to.match(/^[A-Z]:\\.*\\System32\\icacls\.exe$/);
      expect(systemProgram('icacls', 'linux')).to.equal('icacls');
    });
  });
});
