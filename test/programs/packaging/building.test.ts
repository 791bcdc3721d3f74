import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { assetNames, bundle } from '../../../src/packaging/build-agent.ts';
import {
  UnpackedRuntimes,
  isPlatform,
  PLATFORMS,
  runtimeForBuilding,
  runtimeOf,
} from '../../../src/packaging/runtimes.ts';

const ALL = Object.keys(PLATFORMS).filter(isPlatform);

describe('the build of the agent', function () {
  this.timeout(120_000);
  let folder: string;
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'muster-build-test-'));
  });
  after(async () => rm(folder, { recursive: true, force: true }));

  it('makes the same script of the same sources, which runs alone and takes another version', async () => {
    const [one, same, next] = [await bundle('agent'), await bundle('agent'), await bundle('agent', '9.8.7')];
    expect(one.code.equals(same.code)).to.equal(true);
    expect(next.code.equals(one.code)).to.equal(false);
    const file = path.join(folder, 'agent.cjs');
    await writeFile(file, next.code);
    expect(execFileSync(process.execPath, [file, 'version'], { encoding: 'utf8' })).to.equal('9.8.7\n');
  });

  it('keeps the programs small: what they do not use is left out, and V8 needs one byte for each character', async () => {
    const [agent, watchdog] = [await bundle('agent'), await bundle('watchdog')];
    for (const { code } of [agent, watchdog]) expect(/[\u0100-\uFFFF]/.test(code.toString())).to.equal(false);
    // The languages of zod, and commands that only the server and the agent know.
    expect(agent.code.includes('Entrada')).to.equal(false);
    expect(watchdog.code.includes('eventlogs.query')).to.equal(false);
    // The agent uses `ws`. To look for the runtime's own WebSocket loads its HTTP client and WebAssembly.
    const look = 'process.moduleLoadList.some((name) => name.includes("undici"))';
    const file = path.join(folder, 'agent.cjs');
    await writeFile(file, `${agent.code.toString()}\nprocess.on('exit', () => console.log(${look}));`);
    expect(execFileSync(process.execPath, [file, 'version'], { encoding: 'utf8' })).to.match(/\nfalse\n$/);
  });

  it('has a runtime of the same version for building and for each platform, with a checksum', () => {
    for (const platform of ALL) {
      const versionOf = (spec: string) => spec.slice(spec.lastIndexOf('@'));
      const own = runtimeOf(platform);
      expect(own.integrity).to.match(/^sha512-[A-Za-z0-9+/]{86}==$/);
      const maker = runtimeForBuilding(platform, { platform: 'linux', arch: 'x64' });
      expect(versionOf(maker.spec)).to.equal(versionOf(own.spec));
    }
    expect(() => runtimeForBuilding('linux-x64', { platform: 'aix', arch: 'ppc64' })).to.throw('aix');
  });

  it('names its files as a release has them', () => {
    expect(ALL.flatMap((platform) => Object.values(assetNames(platform))).slice(0, 2)).to.deep.equal([
      'muster-watchdog-linux-x64',
      'muster-agent-linux-x64.cjs',
    ]);
    expect(assetNames('windows-arm64').watchdog).to.equal('muster-watchdog-windows-arm64.exe');
  });

  it('uses no runtime that is not the pinned one', async () => {
    // A package on this machine in place of one of the registry.
    const source = path.join(folder, 'source');
    execFileSync('mkdir', ['-p', path.join(source, 'bin'), path.join(folder, 'cache')]);
    await writeFile(path.join(source, 'package.json'), '{"name":"forged","version":"1.0.0"}');
    await writeFile(path.join(source, 'bin/node'), '#!/bin/sh\n');
    execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: source, stdio: 'pipe' });
    const spec = path.join(folder, 'forged-1.0.0.tgz');
    const runtimes = new UnpackedRuntimes(path.join(folder, 'unpacked'), path.join(folder, 'cache'));
    const forged = { spec, integrity: runtimeOf('linux-x64').integrity, program: 'bin/node' };
    const refusal = await runtimes.program(forged).catch((error: unknown) => error);
    expect(String(refusal)).to.contain('is not the pinned package');
  });
});
