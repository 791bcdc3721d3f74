import { expect } from 'chai';
import { withShadowCopies } from '../../../src/agent/capabilities/backup/run-backup.ts';
import { backup } from '../../../src/engine/index.ts';
import { failureText } from '../../../src/engine/process/error-output.ts';
import { failureOf, PASSWORD, scriptedEngine, type Workbench, workbenchWith } from './engine-support.ts';

/** Lines of restic for Windows, as its users have reported them (restic issues 3390, 4875 and 4986). */
const DENIED =
  'VSS error: The caller does not have sufficient backup privileges or is not an administrator: E_ACCESSDENIED (0x80070005)';
const NO_ROOM = String.raw`failed to create snapshot for [c:\]: VSS error: async operation failed: VSS_E_INSUFFICIENT_STORAGE (0x8004231f)`;
const PENDING = String.raw`error: failed to create snapshot for [d:\]: VSS error: async operation pending`;
const SUMMARY = JSON.stringify({ message_type: 'summary', snapshot_id: 'a'.repeat(64) });

const itemError = (item: string, error: object) =>
  JSON.stringify({ message_type: 'error', error, during: 'archival', item });

describe('backups from shadow copies', function () {
  this.timeout(60_000);

  /** A restic which prints this on its error output where it is to use shadow copies. */
  async function withLines<T>(
    { lines, exitCode = 0 }: { lines: string[]; exitCode?: number },
    use: (make: (shadowCopies: boolean) => ReturnType<typeof backup>) => Promise<T>,
  ): Promise<T> {
    const shown = lines.map((line) => `printf '%s\\n' '${line}' >&2`).join('\n');
    const { program, remove } = await scriptedEngine(
      `case "$*" in *--use-fs-snapshot*)\n${shown}\n[ ${exitCode} = 1 ] && exit 1\necho '${SUMMARY}'; exit ${exitCode};; esac\necho '${SUMMARY}'`,
    );
    let bench: Workbench | undefined;
    try {
      bench = await workbenchWith(program);
      const { engine } = bench;
      const repository = { destination: { type: 'local', path: '/nowhere' }, password: PASSWORD } as const;
      return await use((shadowCopies) =>
        backup(engine, repository, { paths: ['/a'], host: 'h', shadowCopies }, { isSnapshotKnown: true }),
      );
    } finally {
      await bench?.remove();
      await remove();
    }
  }

  it('names the volumes that have none, and counts their files as read', async () => {
    const lines = [itemError('c:\\', { message: NO_ROOM }), PENDING];
    await withLines({ lines }, async (make) => {
      const { made, shadowCopies } = await withShadowCopies(true, make);
      expect(made.status).to.equal('completed');
      expect(made.unreadable.paths).to.deep.equal([]);
      expect(shadowCopies).to.deep.equal({
        used: true,
        problems: [
          {
            volume: 'c:\\',
            message: 'VSS error: async operation failed: VSS_E_INSUFFICIENT_STORAGE (0x8004231f)',
          },
          { volume: 'd:\\', message: 'VSS error: async operation pending' },
        ],
      });
    });
  });

  it('understands restic before 0.17.1, which names the volume without a reason', async () => {
    await withLines({ lines: [itemError('c:\\', {})] }, async (make) => {
      const { made, shadowCopies } = await withShadowCopies(true, make);
      expect(made.status).to.equal('completed');
      expect(shadowCopies?.problems).to.deep.equal([{ volume: 'c:\\', message: 'restic has not said why.' }]);
    });
  });

  it('is partial if files could not be read as well', async () => {
    const lines = [
      itemError('c:\\', { message: NO_ROOM }),
      itemError('C:\\pagefile.sys', { message: 'in use' }),
    ];
    await withLines({ lines, exitCode: 3 }, async (make) => {
      const { made } = await withShadowCopies(true, make);
      expect(made.status).to.equal('partial');
      expect(made.unreadable.paths.map(({ path }) => path)).to.deep.equal(['C:\\pagefile.sys']);
    });
  });

  it('is made without them if Windows refuses, and says so', async () => {
    await withLines({ lines: [DENIED], exitCode: 1 }, async (make) => {
      expect((await failureOf(make(true))).code).to.equal('SHADOW_COPY_DENIED');
      const { made, shadowCopies } = await withShadowCopies(true, make);
      expect(made.status).to.equal('completed');
      expect(shadowCopies).to.deep.equal({ used: false, problems: [{ volume: '', message: DENIED }] });
    });
  });

  it('says nothing of them on other systems', async () => {
    await withLines({ lines: [DENIED], exitCode: 1 }, async (make) => {
      const { shadowCopies } = await withShadowCopies(false, make);
      expect(shadowCopies).to.equal(undefined);
    });
  });

  it('does not take the refusal of Windows for one of the destination', () => {
    expect(failureText(DENIED)).to.include({ code: 'SHADOW_COPY_DENIED' });
    // As restic 0.14 says it where the library has no such function.
    const missing =
      'Failed to find ?CreateVssBackupComponents@@YAJPEAPEAVIVssBackupComponents@@@Z procedure in VssApi.dll: Procedure not found.';
    expect(failureText(missing)).to.include({ code: 'SHADOW_COPY_DENIED' });
  });
});
