import { expect } from 'chai';
import fc from 'fast-check';
import {
  shadowCopyHandlers,
  overallStatus,
  parseProviders,
  parseWriters,
  vssStatus,
} from '../../../../../src/agent/capabilities/shadow-copies.ts';
import { VssStatus } from '../../../../../src/protocol/index.ts';
import { fakePrograms, type FakePrograms } from '../../support/fake-programs.ts';

/** As Windows prints it, in three languages. */
const HEADER = `vssadmin 1.1 - Volume Shadow Copy Service administrative command-line tool
(C) Copyright 2001-2013 Microsoft Corp.
`;
const ENGLISH = `${HEADER}
Writer name: 'Task Scheduler Writer'
   Writer Id: {d61d61c8-d73a-4eee-8cdd-f6f9786b7124}
   Writer Instance Id: {1bddd48e-5052-49db-9b07-b96f96727e6b}
   State: [1] Stable
   Last error: No error

Writer name: 'SqlServerWriter'
   Writer Id: {a65faa63-5ea8-4ebc-9dbd-a0c4db26912a}
   Writer Instance Id: {87fe8a1c-0c5b-4bc1-8b2a-1f1a1a0f2a11}
   State: [8] Failed
   Last error: Non-retryable error

Writer name: 'System Writer'
   Writer Id: {e8132975-6f93-4464-a53e-1050253ae220}
   Writer Instance Id: {5a8bd8ad-2b9a-4d47-8d2d-8e9c2c4a3a55}
   State: [5] Waiting for completion
   Last error: Retryable error
`;
const GERMAN = `vssadmin 1.1 - Verwaltungsbefehlszeilenprogramm des Volumeschattenkopie-Dienstes
(C) Copyright 2001-2013 Microsoft Corp.

Verfassername: "Task Scheduler Writer"
   Verfasserkennung: {d61d61c8-d73a-4eee-8cdd-f6f9786b7124}
   Verfasserinstanzkennung: {1bddd48e-5052-49db-9b07-b96f96727e6b}
   Status: [1] Stabil
   Letzter Fehler: Kein Fehler
`;
const FRENCH = `vssadmin 1.1 - Outil de ligne de commande d'administration du service

Nom du r\uFFFDdacteur\u00A0: \u00AB\u00A0System Writer\u00A0\u00BB
   ID du r\uFFFDdacteur\u00A0: {e8132975-6f93-4464-a53e-1050253ae220}
   ID de l'instance du r\uFFFDdacteur\u00A0: {5a8bd8ad-2b9a-4d47-8d2d-8e9c2c4a3a55}
   \uFFFDtat\u00A0: [10] \uFFFDchec
   Derni\uFFFDre erreur\u00A0: D\uFFFDlai d'attente d\uFFFDpass\uFFFD
`;
const PROVIDERS = `${HEADER}
Provider name: 'Microsoft Software Shadow Copy provider 1.0'
   Provider type: System
   Provider Id: {b5946137-7b9f-4925-af80-51abd60b20d5}
   Version: 1.0.0.7

`;
const ELEVATED = 'Mandatory Label\\\\High Mandatory Level  Label  S-1-16-12288';
const NOT_ELEVATED = 'Mandatory Label\\\\Medium Mandatory Level  Label  S-1-16-8192';
const json = (text: string) => `print(${JSON.stringify(text)});`;

describe('agent: shadow copies of Windows', function () {
  this.timeout(60_000);

  it('reads writers by the form of the list, in the languages that were recorded', () => {
    const writers = parseWriters(ENGLISH);
    expect(writers.map(({ name, state, status }) => [name, state, status])).to.deep.equal([
      ['Task Scheduler Writer', 1, 'stable'],
      ['SqlServerWriter', 8, 'failed'],
      ['System Writer', 5, 'waiting'],
    ]);
    expect(writers[1]).to.include({
      writerId: 'a65faa63-5ea8-4ebc-9dbd-a0c4db26912a',
      instanceId: '87fe8a1c-0c5b-4bc1-8b2a-1f1a1a0f2a11',
      lastError: 'Non-retryable error',
    });
    expect(parseWriters(GERMAN)).to.deep.equal([{ ...writers[0], lastError: 'Kein Fehler' }]);
    const [french] = parseWriters(FRENCH.replaceAll('\n', '\r\n'));
    expect(french).to.include({ name: 'System Writer', state: 10, status: 'failed' });
  });

  it('reads providers', () => {
    expect(parseProviders(PROVIDERS)).to.deep.equal([
      {
        name: 'Microsoft Software Shadow Copy provider 1.0',
        providerId: 'b5946137-7b9f-4925-af80-51abd60b20d5',
        type: 'System',
        version: '1.0.0.7',
      },
    ]);
  });

  it('lists as many as a message takes, with the number of all, and judges by all of them', () => {
    const [stable, failed] = parseWriters(ENGLISH);
    const [provider] = parseProviders(PROVIDERS);
    if (stable === undefined || failed === undefined || provider === undefined) throw new Error('no entries');
    const whole = vssStatus([stable], [provider]);
    expect(whole).to.deep.equal({ status: 'ready', writers: [stable], providers: [provider] });
    const writers = [...Array.from({ length: 500 }, () => stable), failed];
    const cut = vssStatus(
      writers,
      Array.from({ length: 51 }, () => provider),
    );
    expect([cut.writers.length, cut.writerCount]).to.deep.equal([500, 501]);
    expect([cut.providers.length, cut.providerCount]).to.deep.equal([50, 51]);
    expect(cut.status).to.equal('failed');
    expect(VssStatus.parse(cut)).to.deep.equal(cut);
  });

  it('sorts every number of VSS_WRITER_STATE', () => {
    const statuses = Array.from({ length: 18 }, (_, state) => {
      const [writer] = parseWriters(GERMAN.replace('[1]', `[${state}]`));
      return writer?.status;
    });
    expect(statuses).to.deep.equal([
      'unknown',
      'stable',
      ...Array.from({ length: 4 }, () => 'waiting'),
      ...Array.from({ length: 10 }, () => 'failed'),
      'unknown',
      'unknown',
    ]);
  });

  it('is ready only if every writer is stable', () => {
    const of = (...statuses: ('stable' | 'waiting' | 'failed' | 'unknown')[]) =>
      overallStatus(statuses.map((status) => ({ status })));
    expect([
      of('stable'),
      of('stable', 'waiting'),
      of('waiting', 'failed'),
      of(),
      of('unknown'),
    ]).to.deep.equal(['ready', 'busy', 'failed', 'unknown', 'unknown']);
  });

  it('reads anything that is printed, and reports only what the protocol accepts', () => {
    const piece = fc.constantFrom(
      'Writer name: ',
      '   Id: {d61d61c8-d73a-4eee-8cdd-f6f9786b7124}\n',
      '   State: [1] Stable\n',
      '   [999]\n',
      '\n',
      '{',
      '：',
      'x'.repeat(3000),
      '\0',
      '\uD800',
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string())), (pieces) => {
        const text = pieces.join('');
        const status = vssStatus(parseWriters(text), parseProviders(text));
        expect(VssStatus.safeParse(status).success).to.equal(true);
      }),
    );
  });

  describe('asked of the programs', () => {
    let programs: FakePrograms;
    beforeEach(async () => {
      programs = await fakePrograms();
    });
    afterEach(async () => programs.remove());

    async function ask({
      vssadmin,
      whoami = '',
      ms = 50_000,
    }: {
      vssadmin: string;
      whoami?: string;
      ms?: number;
    }) {
      const handlers = shadowCopyHandlers(
        { vssadmin: await programs.add('vssadmin', vssadmin), whoami: await programs.add('whoami', whoami) },
        1,
      );
      const end = new AbortController();
      return handlers['backup.vss-status']?.(
        {},
        { signal: end.signal, timeUp: AbortSignal.timeout(ms), row: async () => {} },
      );
    }
    const failure = async (asked: ReturnType<typeof ask>) =>
      asked.then(
        () => 'nothing',
        (error: unknown) => (error as { code?: string }).code,
      );
    const answering = (writers: string) =>
      `if (call.args[1] === 'providers') { ${json(PROVIDERS)} } else { ${writers} }`;

    it('lists writers and providers', async () => {
      const status = await ask({ vssadmin: answering(json(ENGLISH)) });
      expect(status).to.include({ status: 'failed' });
      expect(status?.writers).to.have.length(3);
      expect(status?.providers).to.have.length(1);
      const calls = await programs.calls('vssadmin');
      expect(calls.map(({ args }) => args)).to.deep.equal([
        ['list', 'writers'],
        ['list', 'providers'],
      ]);
    });

    it('asks again while the list is empty', async () => {
      const status = await ask({ vssadmin: answering(`if (count > 0) { ${json(GERMAN)} }`) });
      expect(status).to.include({ status: 'ready' });
    });

    it('says that the rights are missing, in every language', async () => {
      const refused = `${json('Fehler: Sie haben nicht die erforderlichen Berechtigungen.\r\n')} return 2;`;
      expect(await failure(ask({ vssadmin: refused, whoami: json(NOT_ELEVATED) }))).to.equal(
        'ELEVATION_NEEDED',
      );
      expect(await failure(ask({ vssadmin: refused, whoami: json(ELEVATED) }))).to.equal('VSS_FAILED');
      expect(await failure(ask({ vssadmin: '', whoami: json(NOT_ELEVATED) }))).to.equal('ELEVATION_NEEDED');
      expect(await ask({ vssadmin: '', whoami: json(ELEVATED) })).to.deep.equal({
        status: 'unknown',
        writers: [],
        providers: [],
      });
    });

    it('ends a program that hangs, and says so', async () => {
      const hangs = `${json(ENGLISH)} Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`;
      expect(await failure(ask({ vssadmin: hangs, ms: 300 }))).to.equal('VSS_TIMED_OUT');
    });

    it('does not take in a flood', async () => {
      const flood = `for (let i = 0; i < 3000; i += 1) print('x'.repeat(1000));`;
      expect(await failure(ask({ vssadmin: flood, whoami: json(ELEVATED) }))).to.equal('VSS_FAILED');
    });
  });
});
