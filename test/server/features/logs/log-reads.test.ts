import { expect } from 'chai';
import { createAuditTrail } from '../../../../src/features/audit/index.ts';
import { LogReadRecorder } from '../../../../src/features/logs/index.ts';
import type { LogRead } from '../../../../src/hub/index.ts';
import type { AuditTrail } from '../../../../src/platform/http/audit.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildDevice, buildTenant, type EnrolledDevice } from '../../../support/factories.ts';
import { CALLER } from '../../../support/feed-client.ts';
import { recordingLog } from '../../../support/quiet-log.ts';
import { sharedTestApp, type TestApp } from '../../../support/test-app.ts';
import { entriesOf } from '../audit/reading-support.ts';

describe('the recorder of log reads', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  let device: EnrolledDevice;

  before(async () => {
    app = await sharedTestApp();
    tenant = await buildTenant(app);
  });
  after(async () => app.close());
  beforeEach(async () => {
    device = await buildDevice(app, tenant.orgId);
  });

  const NEVER_BY_ITSELF = 3_600_000;
  const recorder = (flushMs: number, change: Partial<AuditTrail> = {}) => {
    const { log, lines } = recordingLog();
    const audit = { ...createAuditTrail(app.server.chainWriter), ...change };
    return { lines, reads: new LogReadRecorder({ db: app.server.database.pool, audit, log, flushMs }) };
  };
  const readOf = (name: string, change: Partial<LogRead> = {}): LogRead => ({
    caller: {
      ...CALLER,
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgId: null,
      userId: tenant.admin.id,
    },
    client: { ip: '127.0.0.1', userAgent: 'test', trusted: false },
    deviceIds: [device.deviceId],
    how: 'live',
    conditions: { name },
    ...change,
  });
  const names = async () =>
    (await entriesOf(app, 'data.access'))
      .filter(({ resource_id: id }) => id === device.deviceId)
      .map(({ details }) => (details as { conditions: { name: string } }).conditions.name);

  it('writes what is pending when it is closed', async () => {
    const { reads } = recorder(NEVER_BY_ITSELF);
    reads.record(readOf('System'));
    reads.record(readOf('Security'));
    expect(await names()).to.deep.equal([]);
    await reads.close();
    expect(await names()).to.have.members(['System', 'Security']);
  });

  it('keeps entries while the database is away, and writes each once when it is back', async () => {
    let away = 2;
    const { recordAll } = createAuditTrail(app.server.chainWriter);
    const { reads, lines } = recorder(20, {
      recordAll: async (tx, entries) => {
        if (away-- > 0) throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
        await recordAll(tx, entries);
      },
    });
    for (const name of ['A', 'B', 'C']) reads.record(readOf(name));
    await eventually(names, ({ length }) => length > 0);
    await reads.close();
    expect(await names()).to.have.members(['A', 'B', 'C']);
    expect(lines.map(({ event }) => event)).to.deep.equal(['event_logs.reads_kept', 'event_logs.reads_kept']);
  });

  it('leaves out the one read that cannot be written, and names it', async () => {
    const { reads, lines } = recorder(NEVER_BY_ITSELF);
    for (const name of ['A', 'B']) reads.record(readOf(name));
    reads.record(readOf('C', { deviceIds: ['not an id'] }));
    await reads.close();
    expect(await names()).to.have.members(['A', 'B']);
    expect(lines.map(({ event }) => event)).to.deep.equal(['event_logs.read_not_recorded']);
  });

  it('writes nothing about devices that the reader does not see', async () => {
    const stranger = await buildTenant(app);
    const { reads } = recorder(NEVER_BY_ITSELF);
    reads.record(readOf('System', { caller: { ...readOf('').caller, partnerId: stranger.partnerId } }));
    await reads.close();
    expect(await names()).to.deep.equal([]);
  });
});
