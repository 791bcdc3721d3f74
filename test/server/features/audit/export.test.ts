import { expect } from 'chai';
import { csvCell, csvLine } from '../../../../src/features/audit/export.service.ts';
import { newId } from '../../../../src/platform/ids.ts';
import { buildOrganization, buildPerson, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { asOwner } from '../../../support/test-postgres.ts';
import { addEntries, entriesOf, type NewEntry } from './reading-support.ts';

const HEAD =
  'id,timestamp,actorId,actorName,actorEmail,action,resourceType,resourceId,resourceName,category,result,ipAddress,userAgent,details';

describe('exporting the audit trail', () => {
  let app: TestApp;
  let tenant: Awaited<ReturnType<typeof buildTenant>>;
  before(async () => {
    app = await createTestApp();
    tenant = await buildTenant(app);
  });
  after(() => app.close());

  async function place() {
    const orgId = await buildOrganization(app, tenant.partnerId);
    const reader = await buildPerson(app, { scope: 'organization', orgId });
    const add = (...entries: NewEntry[]) =>
      addEntries(app, ...entries.map((entry) => ({ org_id: orgId, ...entry })));
    const post = (body: unknown) => app.call('POST', '/audit-logs/export', { token: reader.token, body });
    const get = (query = '') => app.call('GET', `/audit-logs/export${query}`, { token: reader.token });
    return { orgId, reader, add, post, get };
  }

  it('gives CSV with exact columns, for a file', async () => {
    const { add, post } = await place();
    const actor_id = newId();
    const resource_id = newId();
    const [id] = await add({
      actor_id,
      resource_id,
      actor_email: '=cmd@example.com',
      action: 'device.delete',
      resource_name: '-1, "quoted"\nline',
      details: { a: 'x,"y"' },
      timestamp: '2026-01-02T03:04:05.6Z',
    });
    const { status, headers, body } = await post({ format: 'csv', dateRange: { to: '2026-02-01' } });
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.equal('text/csv; charset=utf-8');
    expect(headers.get('content-disposition')).to.match(
      /^attachment; filename="audit-logs-\d{4}-\d\d-\d\d\.csv"$/,
    );
    expect(body).to.equal(
      `${HEAD}\r\n${id},2026-01-02T03:04:05.600Z,${actor_id},,'=cmd@example.com,device.delete,thing,${resource_id},` +
        `"'-1, ""quoted""\nline",device,success,203.0.113.5,Test/1,"{""a"":""x,\\""y\\""""}"\r\n`,
    );
  });

  it('gives JSON unless CSV is asked for, as the entries are read one by one', async () => {
    const { add, post, orgId, reader } = await place();
    const made = await add(
      { action: 'a.b', timestamp: '2026-01-02T00:00:00Z', resource_name: 'Wool' },
      { action: 'a.b', timestamp: '2026-01-01T00:00:00Z', resource_name: 'Cotton' },
    );
    const { body, headers } = await post({ filters: { action: 'a.b' } });
    expect(headers.get('content-type')).to.contain('application/json');
    const one = await app.call('GET', `/audit-logs/logs/${made[0]}`, { token: reader.token });
    expect(body.data).to.have.length(2);
    expect(body.data[0]).to.deep.equal(one.body);
    const narrow = await post({
      format: 'json',
      filters: { action: 'a.b', resource: 'cott', user: 'SOMEONE' },
      dateRange: { from: '2026-01-01T00:00:00Z', to: '2026-01-01' },
    });
    expect(narrow.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made[1]]);
    const [login] = await add({ action: 'user.login.failed', timestamp: '2026-01-03T00:00:00Z' });
    const ofCategory = await post({
      filters: { category: 'authentication', orgId },
      dateRange: { to: '2026-02-01' },
    });
    expect(ofCategory.body.data.map(({ id }: { id: string }) => id)).to.deep.equal([login]);
    expect((await post({ filters: { action: 'none' } })).body).to.deep.equal({ data: [] });
  });

  it('gives CSV of one person by GET', async () => {
    const { add, get } = await place();
    const actor_id = newId();
    const [id] = await add({ actor_id }, {});
    const { headers, body } = await get(`?userId=${actor_id}`);
    expect(headers.get('content-type')).to.equal('text/csv; charset=utf-8');
    expect(headers.get('content-disposition')).to.contain('attachment');
    const lines = body.split('\r\n');
    expect(lines).to.have.length(3);
    expect(lines[0]).to.equal(HEAD);
    expect(lines[1]).to.contain(id);
  });

  it('begins CSV with a byte order mark, unless that is to be left out', async () => {
    const { reader } = await place();
    const firstBytes = async (query: string, init: RequestInit = {}) => {
      const headers = { Authorization: `Bearer ${reader.token}`, 'Content-Type': 'application/json' };
      const answer = await fetch(`${app.url}/api/v1/audit-logs/export${query}`, { headers, ...init });
      expect(answer.status).to.equal(200);
      return Buffer.from(await answer.arrayBuffer())
        .subarray(0, 5)
        .toString('latin1');
    };
    const post = (body: object) => firstBytes('', { method: 'POST', body: JSON.stringify(body) });
    expect([await firstBytes(''), await post({ format: 'csv' })]).to.deep.equal(
      Array(2).fill('\xef\xbb\xbfid'),
    );
    expect([await firstBytes('?bom=false'), await post({ format: 'csv', bom: false })]).to.deep.equal(
      Array(2).fill('id,ti'),
    );
    expect(await post({ format: 'json' })).to.equal('{"dat');
  });

  it('gives the newest 10,000 and no more', async () => {
    const { orgId, add, get } = await place();
    await add({ timestamp: '2026-01-01T00:00:00Z', resource_name: 'oldest' });
    // Past the sealer, which would take seconds.
    await asOwner(
      app.database.ownerUrl,
      `insert into audit_logs (id, org_id, partner_id, "timestamp", actor_type, actor_id, action, resource_type, details,
        result, seq, checksum, prev_checksum)
      select gen_random_uuid(), $1, $2, '2026-01-02'::timestamptz + make_interval(secs => n % 10), 'user', $1, 'deed', 'thing',
        '{}', 'success', n + 1000, lpad(to_hex(n), 64, '0'), lpad(to_hex(n - 1), 64, '0')
      from generate_series(1, 10000) n`,
      [orgId, tenant.partnerId],
    );
    const { body } = await get('?to=2026-01-31');
    const lines = body.split('\r\n').slice(1, -1);
    expect(lines).to.have.length(10_000);
    expect(new Set(lines.map((line: string) => line.slice(0, 36))).size).to.equal(10_000);
    expect(body).not.to.contain('oldest');
    const times = lines.map((line: string) => line.split(',')[1]);
    expect(times[0] >= times[9999]).to.equal(true);
  });

  it('is in the trail itself, with what was asked for', async () => {
    const { orgId, reader, post, get } = await place();
    await post({ format: 'csv', filters: { action: 'x.y' }, dateRange: { from: '2026-01-01' } });
    // The first one is in the trail by then, or not yet.
    await get(`?userId=${reader.id}&to=2026-01-01T00:00:00Z`);
    const ofAction = async (action: string) =>
      (await entriesOf(app, action)).filter(({ org_id: of }) => of === orgId);
    const entries = await ofAction('audit_logs.export');
    expect((await ofAction('data.export')).map(({ details }) => details)).to.deep.equal(
      entries.map(({ details }) => details),
    );
    expect(entries.map(({ details }) => details)).to.deep.equal([
      { format: 'csv', rows: 0, action: 'x.y', from: '2026-01-01T00:00:00.000Z' },
      { format: 'csv', rows: 0, userId: reader.id, to: '2026-01-01T00:00:00.000Z' },
    ]);
    expect(entries[0]).to.include({ resource_type: 'audit_logs', actor_id: reader.id, result: 'success' });
  });

  it('holds nothing of other organizations', async () => {
    const [mine, other] = [await place(), await place()];
    const action = `export.${newId().slice(-8)}`;
    await other.add({ action });
    const [id] = await mine.add({ action });
    const { body } = await mine.post({ filters: { action } });
    expect(body.data.map((entry: { id: string }) => entry.id)).to.deep.equal([id]);
    const chosen = await buildPerson(app, {
      scope: 'partner',
      partnerId: tenant.partnerId,
      orgAccess: 'selected',
      orgIds: [other.orgId],
    });
    const csv = await app.call('GET', `/audit-logs/export?action=${action}`, { token: chosen.token });
    expect(csv.body).not.to.contain(id);
    expect(csv.body).to.contain(action);
  });

  it('needs its own permission', async () => {
    const { status, body } = await app.call('GET', '/audit-logs/export', { token: tenant.technician.token });
    expect([status, body.error]).to.deep.equal([403, 'This needs the permission audit:export.']);
  });

  it('refuses what it cannot read, naming it', async () => {
    const { post, get } = await place();
    for (const [body, field] of [
      [{ format: 'xml' }, 'format'],
      [{ filters: { other: 'x' } }, 'filters'],
      [{ filters: { user: '' } }, 'filters.user'],
      [{ dateRange: { from: 'x' } }, 'dateRange.from'],
      [{ dateRange: { from: '2026-01-02', to: '2026-01-01' } }, 'dateRange.from'],
      [{ limit: 5 }, ''],
    ] as const) {
      const answer = await post(body);
      expect([answer.status, answer.body.details?.[0]?.path], JSON.stringify(body)).to.deep.equal([
        400,
        `body${field === '' ? '' : '.'}${field}`,
      ]);
    }
    for (const [query, field] of [
      ['?from=2026-02-02&to=2026-02-01', 'from'],
      ['?userId=x', 'userId'],
    ]) {
      const answer = await get(query);
      expect([answer.status, answer.body.details?.[0]?.path]).to.deep.equal([400, `query.${field}`]);
    }
  });

  it('survives a client that leaves in the middle', async () => {
    const { add, get, reader } = await place();
    await add(...Array.from({ length: 900 }, () => ({ details: { filler: 'x'.repeat(2000) } })));
    const leaving = new AbortController();
    const response = await fetch(`${app.url}/api/v1/audit-logs/export`, {
      headers: { authorization: `Bearer ${reader.token}` },
      signal: leaving.signal,
    });
    expect(response.status).to.equal(200);
    leaving.abort();
    expect((await get('?to=2020-01-01')).status).to.equal(200);
    expect(app.log.filter(({ level }) => level === 'error')).to.deep.equal([]);
  });
});

describe('a cell of CSV', () => {
  for (const [value, cell] of [
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@x', "'@x"],
    ['\tx', "'\tx"],
    ['\rx', `"'\rx"`],
    ['\n=1+1', `"'\n=1+1"`],
    ['＝1+1', "'＝1+1"],
    ['＋1', "'＋1"],
    ['－1', "'－1"],
    ['＠x', "'＠x"],
    [' =1+1', "' =1+1"],
    ['\u00a0＝1', "'\u00a0＝1"],
    ['\ufeff=1', "'\ufeff=1"],
    ['\u0000=1', "'\u0000=1"],
    [' plain', ' plain'],
    ['=a,"b"', `"'=a,""b"""`],
    ['a=b', 'a=b'],
    ['plain', 'plain'],
    ['', ''],
  ] as const) {
    it(`of ${JSON.stringify(value)} is ${JSON.stringify(cell)}`, () => expect(csvCell(value)).to.equal(cell));
  }
  it('that holds nothing is empty', () => expect(csvLine(['a', null, 'b'])).to.equal('a,,b\r\n'));
});
