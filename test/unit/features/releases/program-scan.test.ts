import { expect } from 'chai';
import fc from 'fast-check';
import { ProgramScan } from '../../../../src/features/releases/program-scan.ts';
import type { ReleaseName } from '../../../../src/features/releases/release-name.ts';

const NAME: ReleaseName = { component: 'agent', version: '1.2.0', os: 'linux', architecture: 'x64' };

/** What a scan says of the pieces: nothing where the file is what it is named. */
function fault(pieces: readonly Buffer[], name: Partial<ReleaseName> = {}): string | undefined {
  const scan = new ProgramScan();
  for (const piece of pieces) scan.add(piece);
  try {
    scan.assertIs({ ...NAME, ...name });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : 'thrown';
  }
}

const script = (component: string, version: string) =>
  Buffer.from(`run();\n/* muster-program ${component} ${version} */\n`);

function elf(machine: number): Buffer {
  const head = Buffer.alloc(64);
  head.writeUInt32BE(0x7f454c46, 0);
  head.writeUInt16LE(machine, 18);
  return head;
}

function pe(machine: number): Buffer {
  const head = Buffer.alloc(256);
  head.write('MZ');
  head.writeUInt32LE(128, 60);
  head.write('PE\0\0', 128, 'latin1');
  head.writeUInt16LE(machine, 132);
  return head;
}

function machO(cpu: number): Buffer {
  const head = Buffer.alloc(64);
  head.writeUInt32LE(0xfeedfacf, 0);
  head.writeUInt32LE(cpu, 4);
  return head;
}

describe('a file that is published as a release', () => {
  it('is taken if it is what it is named, and if it says nothing', () => {
    for (const bytes of ['', 'M', 'MZ', 'anything', '\x7fEL']) {
      expect(fault([Buffer.from(bytes)]), bytes).to.equal(undefined);
    }
    expect(fault([script('agent', '1.2.0')])).to.equal(undefined);
    const watchdog = { component: 'watchdog', version: '0.9.0' } as const;
    const both = [elf(0x3e), script('watchdog', '0.9.0'), script('agent', '1.2.0')];
    expect(fault(both, watchdog)).to.equal(undefined);
    expect(fault([elf(0xb7)], { component: 'backup', architecture: 'arm64' })).to.equal(undefined);
    expect(fault([pe(0x8664)], { component: 'watchdog', os: 'windows' })).to.equal(undefined);
    expect(
      fault([machO(0x0100000c)], { component: 'watchdog', os: 'macos', architecture: 'arm64' }),
    ).to.equal(undefined);
  });

  it('is refused if it is another version, component or platform', () => {
    expect(fault([script('agent', '1.1.0')])).to.include('is version 1.1.0 of the agent, and not 1.2.0');
    expect(fault([script('agent', '1.2.0')], { component: 'watchdog' })).to.include('is the agent, and not');
    expect(fault([elf(0x3e)])).to.include('is an executable (ELF); the agent is a script');
    const watchdog = { component: 'watchdog' } as const;
    expect(fault([elf(0x3e)], { ...watchdog, os: 'windows' })).to.include('for linux, and not for windows');
    expect(fault([elf(0xb7)], watchdog)).to.include('for arm64, and not for x64');
    expect(fault([pe(0xaa64)], { ...watchdog, os: 'windows' })).to.include('for arm64, and not for x64');
    expect(fault([machO(0x01000007)], watchdog)).to.include('for macos, and not for linux');
  });

  it('is recognized in whatever pieces it arrives', () => {
    const bytes = Buffer.concat([Buffer.alloc(500, 'x'), script('agent', '1.1.0'), Buffer.alloc(500, 'y')]);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 50 }), (sizes) => {
        const pieces: Buffer[] = [];
        let at = 0;
        for (const size of sizes) pieces.push(bytes.subarray(at, (at += size)));
        pieces.push(bytes.subarray(at));
        expect(fault(pieces)).to.include('is version 1.1.0');
      }),
    );
  });
});
