import { access, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'chai';
import {
  afterHealthy,
  afterRollback,
  changeProven,
  floorForStart,
  provenReleases,
} from '../../../../../src/agent/os/releases/installed-release.ts';
import { temporaryFolder } from '../../../../support/agent/test-agent.ts';

describe('a release that was healthy', () => {
  it('is the floor if none was healthy before', () => {
    expect(afterHealthy({ healthy: [] }, '1.0.0')).to.deep.equal({ floor: '1.0.0', healthy: ['1.0.0'] });
  });

  it('raises the floor, and never lowers it', () => {
    const proven = { floor: '1.1.0', healthy: ['1.1.0'] };
    expect(afterHealthy(proven, '1.2.0').floor).to.equal('1.2.0');
    expect(afterHealthy(proven, '1.1.0').floor).to.equal('1.1.0');
    expect(afterHealthy(proven, '1.0.0').floor).to.equal('1.1.0');
  });

  it('is the first of at most three, each of them once', () => {
    const proven = { floor: '1.2.0', healthy: ['1.2.0', '1.1.0', '1.0.0'] };
    expect(afterHealthy(proven, '1.3.0').healthy).to.deep.equal(['1.3.0', '1.2.0', '1.1.0']);
    expect(afterHealthy(proven, '1.0.0').healthy).to.deep.equal(['1.0.0', '1.2.0', '1.1.0']);
  });

  it('keeps the pin that names it below the floor, and ends every other', () => {
    const proven = (pinned: string) => ({ floor: '1.1.0', healthy: ['1.1.0'], pinned });
    expect(afterHealthy(proven('1.0.0'), '1.0.0')).to.include({ pinned: '1.0.0' });
    expect(afterHealthy(proven('1.1.0'), '1.1.0')).to.include({ pinned: '1.1.0' });
    expect(afterHealthy(proven('1.2.0'), '1.2.0'), 'needs none').not.to.have.property('pinned');
    expect(afterHealthy(proven('1.0.0'), '1.0.1'), 'of another').not.to.have.property('pinned');
  });
});

describe('a release that is rolled back after it was healthy', () => {
  it('is no floor any more, and leaves a floor that is higher', () => {
    const proven = { floor: '1.2.0', healthy: ['1.2.0', '1.0.0', '1.1.0'] };
    expect(afterRollback(proven, '1.2.0')).to.deep.equal({ floor: '1.1.0', healthy: ['1.0.0', '1.1.0'] });
    expect(afterRollback({ floor: '1.3.0', healthy: ['1.2.0', '1.1.0'] }, '1.2.0')).to.deep.equal({
      floor: '1.3.0',
      healthy: ['1.1.0'],
    });
    expect(
      afterRollback({ floor: '1.2.0', healthy: ['1.1.0', '1.2.0'] }, '1.2.0'),
      'not the last',
    ).to.deep.equal({
      floor: '1.2.0',
      healthy: ['1.1.0', '1.2.0'],
    });
  });
});

describe('the floor at the start of a release', () => {
  const proven = { floor: '1.2.0', healthy: ['1.2.0', '1.1.0'], pinned: '0.9.0' };

  it('holds, except for releases that were healthy here and for a pinned one', () => {
    expect(
      ['1.0.0', '1.1.0', '1.2.0', '0.9.0', '1.3.0'].map((version) => floorForStart(proven, version)),
    ).to.deep.equal(['1.2.0', undefined, undefined, undefined, '1.2.0']);
    expect(floorForStart({ floor: '1.2.0', healthy: [] }, '1.0.0')).to.equal('1.2.0');
  });
});

describe('the file of releases that were healthy', () => {
  let dataDir: string;
  let remove: () => Promise<void>;
  beforeEach(async () => {
    ({ folder: dataDir, remove } = await temporaryFolder());
  });
  afterEach(() => remove());

  it('has nothing before the first', async () => {
    expect(await provenReleases(dataDir, 'agent')).to.deep.equal({ healthy: [] });
  });

  it('is changed for one component at a time, and stands beside the other files of upgrades', async () => {
    await changeProven(dataDir, 'agent', (proven) => afterHealthy(proven, '1.0.0'));
    await changeProven(dataDir, 'watchdog', (proven) => {
      expect(proven).to.deep.equal({ healthy: [] });
      return afterHealthy(proven, '2.0.0');
    });
    expect(await provenReleases(dataDir, 'agent')).to.deep.equal({ floor: '1.0.0', healthy: ['1.0.0'] });
    expect(await provenReleases(dataDir, 'watchdog')).to.deep.equal({ floor: '2.0.0', healthy: ['2.0.0'] });
    await access(path.join(dataDir, 'upgrades', 'proven.json'));
  });

  it('counts as empty if it is damaged', async () => {
    await mkdir(path.join(dataDir, 'upgrades'), { recursive: true, mode: 0o700 });
    await writeFile(path.join(dataDir, 'upgrades', 'proven.json'), '{"agent":5}', { mode: 0o600 });
    expect(await provenReleases(dataDir, 'agent')).to.deep.equal({ healthy: [] });
  });
});
