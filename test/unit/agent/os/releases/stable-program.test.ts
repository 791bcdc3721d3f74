import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import {
  chooseRelease,
  currentRelease,
  stableProgram,
  ownProgramsDir,
  programFile,
} from '../../../../../src/agent/os/releases/layout.ts';
import { removeParts } from '../../../../../src/watchdog/settle.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

describe('the program that a task of Windows starts', () => {
  let programs: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    const temporary = await temporaryFolder();
    ({ remove } = temporary);
    programs = temporary.folder;
    for (const version of ['1.0.0', '1.1.0']) {
      const file = programFile(programs, 'watchdog', version);
      await mkdir(path.dirname(file), { recursive: true });
      await writeFile(file, `program ${version}`);
    }
  });
  afterEach(() => remove());

  const choose = (version: string) => chooseRelease(programs, 'watchdog', version, 'win32');
  const started = () => readFile(stableProgram(programs), 'utf8');

  it('stays at its path, and is the one of the chosen version', async () => {
    await choose('1.0.0');
    expect(await started()).to.equal('program 1.0.0');
    await choose('1.1.0');
    expect([await started(), await currentRelease(programs, 'watchdog', 'win32')]).to.deep.equal([
      'program 1.1.0',
      '1.1.0',
    ]);
    await choose('1.0.0');
    expect(await started()).to.equal('program 1.0.0');
    expect(await readdir(path.join(programs, 'watchdog'))).to.have.members([
      '1.0.0',
      '1.1.0',
      'current.json',
      path.basename(stableProgram(programs)),
    ]);
  });

  it('leaves nothing behind that the next start does not remove', async () => {
    await choose('1.0.0');
    // What an upgrade renames, because it runs.
    await writeFile(`${stableProgram(programs)}.0123456789abcdef.old`, 'former');
    await removeParts(programs);
    expect(
      (await readdir(path.join(programs, 'watchdog'))).filter((name) => name.endsWith('.old')),
    ).to.deep.equal([]);
    expect(await started()).to.equal('program 1.0.0');
  });

  it('knows the folder that it is installed in', () => {
    expect(ownProgramsDir('/opt/muster/watchdog/muster-agent')).to.equal('/opt/muster');
    expect(ownProgramsDir('/opt/muster/watchdog/1.0.0/muster-agent')).to.equal('/opt/muster');
    expect(ownProgramsDir('/usr/bin/node')).to.equal(undefined);
  });
});
