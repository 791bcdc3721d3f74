import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import { eventually } from '../../../support/eventually.ts';
import { createTestApp } from '../../../support/test-app.ts';
import { removeEntry } from '../../../support/graph-server.ts';
import { type CloudFixture, createCloudFixture, ended } from '../../../support/cloud-backup/cloud-support.ts';

describe('a backup of Microsoft 365', function () {
  this.timeout(60_000);
  let cloud: CloudFixture;
  before(async () => {
    cloud = await createCloudFixture();
  });
  after(() => cloud.close());
  afterEach(() => {
    cloud.graph.onCall = undefined;
    cloud.graph.mailboxes.clear();
  });

  const names = async (configId: string, more = '') =>
    (await cloud.items(`configId=${configId}${more}`)).map(({ subjectOrName }) => subjectOrName).sort();

  it('brings every kind, then only what has changed, and keeps what was deleted', async () => {
    const ada = cloud.mailbox('ada@example.com');
    for (let i = 0; i < 25; i++) ada.message(`m${i}`, `Mail ${i}`);
    ada.contact('c1', 'Grace');
    ada.event('e1', 'Meeting');
    ada.folder('f1', 'Papers');
    const large = randomBytes(9_000_000);
    ada.file('large', 'large.bin', large, 'f1');
    const configId = await cloud.config();

    const first = await cloud.run(configId);
    expect(first).to.include({ status: 'completed', itemsNew: 28, itemsUpdated: 0, itemsFailed: 0 });
    const [file] = await cloud.items(`configId=${configId}&itemType=onedrive`);
    expect(file).to.include({ parentPath: '/Papers', sizeBytes: large.length });
    const content = await fetch(`${cloud.app.url}/api/v1/c2c/items/${file!.id}/content`, {
      headers: { authorization: `Bearer ${cloud.tenant.admin.token}` },
    });
    expect(Buffer.from(await content.arrayBuffer()).equals(large), 'the file is what it was').to.equal(true);

    ada.message('m3', 'Mail 3, changed', 'anew');
    ada.message('new', 'New mail');
    removeEntry(ada.folders.get('inbox')!.entries, 'm4');
    removeEntry(ada.calendars.get('calendar')!.entries, 'e1');
    const second = await cloud.run(configId);
    expect(second).to.include({ status: 'completed', itemsNew: 1, itemsUpdated: 1, itemsDeleted: 2 });
    expect(await names(configId, '&isDeleted=true')).to.deep.equal(['Mail 4', 'Meeting']);
    expect(await names(configId)).to.have.length(29);
    const third = await cloud.run(configId);
    expect(third).to.include({ status: 'completed', itemsNew: 0, itemsUpdated: 0, itemsDeleted: 0 });
    const { body: config } = await cloud.call('GET', `/c2c/configs/${configId}`);
    expect(config.lastRun).to.include({ jobId: third.id, status: 'completed' });
    const { body: usage } = await cloud.call('GET', '/c2c/usage');
    expect(usage.storedBytes).to.be.greaterThan(large.length);
  });

  it('gives a file with a long name under a name with the same ending', async () => {
    cloud
      .mailbox('ada@example.com')
      .file('long', `${'Minutes of the board '.repeat(5)}.xlsx`, Buffer.from('1'));
    const configId = await cloud.config({ backupScope: ['onedrive'] });
    await cloud.run(configId);
    const [file] = await cloud.items(`configId=${configId}`);
    const answer = await fetch(`${cloud.app.url}/api/v1/c2c/items/${file!.id}/content`, {
      headers: { authorization: `Bearer ${cloud.tenant.admin.token}` },
    });
    expect(answer.headers.get('content-disposition')).to.match(/filename="Minutes of the board [^"]*\.xlsx"/);
  });

  it('keeps what an item was before, and gives and restores it', async () => {
    const [ada, bob] = [cloud.mailbox('ada@example.com'), cloud.mailbox('bob@example.com')];
    ada.file('f', 'plan.txt', Buffer.from('the first plan'));
    ada.file('g', 'other.txt', Buffer.from('another file'));
    const configId = await cloud.config({ backupScope: ['onedrive'] });
    await cloud.run(configId);
    ada.file('f', 'plan.txt', Buffer.from('a later plan'));
    await cloud.run(configId);
    const [plan, other] = await Promise.all(
      ['plan', 'other'].map(async (name) => (await cloud.items(`configId=${configId}&search=${name}`))[0]!),
    );
    const { body } = await cloud.call('GET', `/c2c/items/${plan!.id}/versions`);
    const versions = body.data as { id: string; isNewest: boolean; supersededAt: string | null }[];
    expect(versions.map(({ isNewest, supersededAt }) => [isNewest, supersededAt === null])).to.deep.equal([
      [true, true],
      [false, false],
    ]);
    const versionId = versions[1]!.id;
    const content = (id: string) => cloud.call('GET', `/c2c/items/${id}/content?versionId=${versionId}`);
    expect((await content(plan!.id)).body).to.equal('the first plan');
    expect((await content(other!.id)).status, 'a content of another item').to.equal(404);

    const restore = (itemIds: string[]) =>
      cloud.call('POST', '/c2c/items/restore', { itemIds, versionId, targetUser: 'bob@example.com' });
    const both = await restore([plan!.id, other!.id]);
    expect([both.status, both.body.details[0].path]).to.deep.equal([400, 'body.versionId']);
    expect((await restore([other!.id])).status).to.equal(404);
    const job = await ended(cloud.call, (await restore([plan!.id])).body.id as string);
    expect(job.items[0]).to.include({
      status: 'restored',
      subjectOrName: 'plan.txt',
      userEmail: 'ada@example.com',
    });
    expect(String(bob.files.get('path:Restored by Muster/plan.txt')?.content)).to.equal('the first plan');
  });

  it('brings back a version that is as long as the one that is there', async () => {
    const [ada, bob] = [cloud.mailbox('ada@example.com'), cloud.mailbox('bob@example.com')];
    ada.file('f', 'plan.txt', Buffer.from('plan A'));
    const configId = await cloud.config({ backupScope: ['onedrive'] });
    await cloud.run(configId);
    ada.file('f', 'plan.txt', Buffer.from('plan B'));
    await cloud.run(configId);
    const [plan] = await cloud.items(`configId=${configId}`);
    const { body } = await cloud.call('GET', `/c2c/items/${plan!.id}/versions`);
    const bring = async (versionId: string) => {
      const order = { itemIds: [plan!.id], versionId, targetUser: 'bob@example.com' };
      const { id } = (await cloud.call('POST', '/c2c/items/restore', order)).body;
      return (await ended(cloud.call, id as string)).items[0]?.status;
    };
    const [newest, earlier] = body.data as { id: string }[];
    expect(await bring(newest!.id)).to.equal('restored');
    expect(await bring(newest!.id)).to.equal('present');
    expect(await bring(earlier!.id)).to.equal('restored');
    expect(String(bob.files.get('path:Restored by Muster/plan.txt')?.content)).to.equal('plan A');
  });

  it('of nothing has failed, and so has what was there before and is not any more', async () => {
    const [ada, bob] = [cloud.mailbox('ada@example.com'), cloud.mailbox('bob@example.com')];
    ada.hasDrive = false;
    bob.hasDrive = false;
    bob.message('m1', 'Mail');
    const targetUsers = ['ada@example.com', 'bob@example.com'];
    const drives = await cloud.config({ backupScope: ['onedrive'], targetUsers });
    const nothing = await cloud.run(drives);
    expect(nothing).to.include({ status: 'failed' });
    expect(nothing.error?.code).to.equal('BACKUP_EMPTY');
    ada.hasDrive = true;
    ada.file('f', 'plan.txt', Buffer.from('plan'));
    expect(await cloud.run(drives)).to.include({ status: 'completed', error: null });
    ada.hasDrive = false;
    bob.hasDrive = true;
    const lost = await cloud.run(drives);
    expect(lost.status).to.equal('partial');
    expect(lost.outcomes.map(({ status }) => status).sort()).to.deep.equal(['completed', 'failed']);
  });

  it('starts over when its token has expired, without doubling anything', async () => {
    const ada = cloud.mailbox('ada@example.com');
    for (let i = 0; i < 15; i++) ada.message(`m${i}`, `Mail ${i}`);
    const configId = await cloud.config({ backupScope: ['mail'] });
    await cloud.run(configId);
    removeEntry(ada.folders.get('inbox')!.entries, 'm7');
    ada.message('later', 'Later');
    cloud.graph.onCall = ({ query }) =>
      query.has('$deltatoken')
        ? { status: 410, body: { error: { code: 'syncStateNotFound', message: 'gone' } } }
        : undefined;
    expect(await cloud.run(configId)).to.include({
      status: 'completed',
      itemsNew: 1,
      itemsUpdated: 0,
      itemsDeleted: 1,
    });
    expect(await names(configId)).to.have.length(16);
  });

  it('waits as long as it is told, and comes through failures of parts of a batch', async () => {
    const ada = cloud.mailbox('ada@example.com');
    for (let i = 0; i < 12; i++) ada.message(`m${i}`, `Mail ${i}`);
    const configId = await cloud.config({ backupScope: ['mail'] });
    let throttledAt = 0;
    let nextAt = 0;
    cloud.graph.onCall = ({ path, isInBatch, count }) => {
      if (throttledAt > 0 && nextAt === 0) nextAt = Date.now();
      if (path.endsWith('/m2/$value') && isInBatch) {
        return { status: 429, body: { error: { code: 'TooManyRequests' } } };
      }
      if (path.endsWith('/m5/$value') && isInBatch) return { status: 404 };
      if (path.endsWith('/messages/delta') && count === 1) {
        throttledAt = Date.now();
        return { status: 429, headers: { 'retry-after': '1' } };
      }
      return undefined;
    };
    expect(await cloud.run(configId)).to.include({ status: 'completed', itemsNew: 12, itemsFailed: 0 });
    expect(nextAt - throttledAt).to.be.at.least(950);
  });

  it('keeps the failure of one user to that user, and the failure of one item to that item', async () => {
    const ada = cloud.mailbox('ada@example.com');
    ada.message('good', 'Good');
    ada.message('bad', 'Bad', 'x', { hasAttachments: true });
    ada.folders.get('inbox')!.entries.get('good')!.record['subject'] = 'Good\u0000 one';
    cloud.mailbox('bob@example.com');
    cloud.graph.onCall = ({ path }) => {
      if (path.endsWith('/bad/$value')) {
        return { status: 403, body: { error: { code: 'ErrorAccessDenied' } } };
      }
      if (path.includes(cloud.graph.mailboxes.get('bob@example.com')!.id)) {
        return { body: '[[[[{"value": 7}' };
      }
      return undefined;
    };
    const targetUsers = ['ada@example.com', 'bob@example.com', 'nobody@example.com'];
    const configId = await cloud.config({ backupScope: ['mail'], targetUsers });
    const job = await cloud.run(configId);
    expect(job.status).to.equal('partial');
    const outcome = (email: string) => job.outcomes.find(({ userEmail }) => userEmail === email);
    expect(outcome('ada@example.com')).to.include({ status: 'partial' });
    expect(outcome('bob@example.com')?.status).to.equal('failed');
    expect(outcome('nobody@example.com')?.error?.code).to.equal('USER_NOT_FOUND');

    cloud.graph.onCall = undefined;
    expect(await cloud.run(configId), 'the list does not name it again').to.include({ itemsNew: 1 });
    expect((await cloud.items(`configId=${configId}`)).map(({ errorCode }) => errorCode)).to.deep.equal([
      null,
      null,
    ]);
  });

  it('raises an alert if it fails, which the next run that ends well or the removal of the configuration ends', async () => {
    const alerts = async () =>
      (await cloud.call('GET', '/alerts?kind=cloud_backup_failed&status=active')).body.data as {
        message: string;
      }[];
    cloud.mailbox('ada@example.com').message('m', 'Mail');
    const [first, second] = [await cloud.config({ name: 'First' }), await cloud.config({ name: 'Second' })];
    await cloud.run(first);
    expect(await alerts()).to.deep.equal([]);
    cloud.graph.onCall = () => ({ status: 401, body: { error: { code: 'InvalidAuthenticationToken' } } });
    for (const configId of [first, second]) {
      expect(await cloud.run(configId)).to.include({ status: 'failed' });
    }
    cloud.graph.onCall = undefined;
    const [alert, ...more] = await alerts();
    expect(more).to.deep.equal([]);
    expect(alert?.message).to.include('First: ').and.include('Second: ');
    await cloud.run(first);
    expect(await alerts(), 'the other one stands').to.have.length(1);
    await cloud.call('DELETE', `/c2c/configs/${second}`);
    expect(await alerts()).to.deep.equal([]);
  });

  it('follows no link to another host, no redirect to an internal address, and no list without an end', async () => {
    const ada = cloud.mailbox('ada@example.com');
    ada.message('m', 'Mail');
    ada.file('f', 'file', Buffer.from('x'));
    cloud.graph.onCall = ({ path }) => {
      const link = path.endsWith('/messages/delta')
        ? 'http://127.0.0.2:9/v1.0/steal'
        : path.endsWith('/events')
          ? `${cloud.graph.graphUrl}/users/${ada.id}/calendars/calendar/events?$skip=${Math.random()}`
          : undefined;
      if (link !== undefined) return { body: { value: [], '@odata.nextLink': link } };
      if (path.endsWith('/f/content')) {
        return { status: 302, headers: { location: 'http://127.0.0.2:9/' }, body: '' };
      }
      return undefined;
    };
    const configId = await cloud.config({ backupScope: ['mail', 'calendar', 'onedrive'] });
    const { body: begun } = await cloud.call('POST', `/c2c/configs/${configId}/run`);
    // The endless list has as many pages as are read at most.
    await cloud.app.settle();
    const job = await ended(cloud.call, begun.id as string);
    const codes = job.outcomes.map(({ kind, error }) => [kind, error?.code]);
    expect(codes).to.deep.include(['mail', 'GRAPH_ANSWER_INVALID']);
    expect(codes).to.deep.include(['calendar', 'ENDLESS_LIST']);
    const [file] = await cloud.items(`configId=${configId}`);
    expect(file?.errorCode).to.match(/^GRAPH_/);
  });

  it('is restored once, however often that is asked for, and is exported', async () => {
    const ada = cloud.mailbox('ada@example.com');
    const bob = cloud.mailbox('bob@example.com');
    ada.message('m', 'A mail');
    ada.contact('c', 'Grace');
    ada.event('e', 'Meeting');
    ada.folder('d', 'Papers');
    ada.file('f', 'paper.txt', Buffer.from('content of a paper'), 'd');
    const configId = await cloud.config();
    await cloud.run(configId);
    const items = await cloud.items(`configId=${configId}`);
    const restore = async () => {
      const { status, body } = await cloud.call('POST', '/c2c/items/restore', {
        itemIds: items.map(({ id }) => id),
        targetUser: 'bob@example.com',
      });
      expect(status, JSON.stringify(body)).to.equal(201);
      return ended(cloud.call, body.id as string);
    };
    const once = await restore();
    expect(once.status, JSON.stringify(once)).to.equal('completed');
    expect(once.items.map(({ status }) => status)).to.deep.equal(Array(4).fill('restored'));
    const again = await restore();
    expect(again.items.map(({ status }) => status)).to.deep.equal(Array(4).fill('present'));
    const mails = [...bob.folders.values()].find(({ name }) => name === 'Restored by Muster');
    expect([...mails!.entries.values()].map(({ content }) => String(content))[0]).to.include(
      'Subject: A mail',
    );
    expect(String(bob.files.get('path:Restored by Muster/Papers/paper.txt')?.content)).to.equal(
      'content of a paper',
    );

    const archive = await cloud.call('POST', '/c2c/items/export', { itemIds: items.map(({ id }) => id) });
    expect(archive.status).to.equal(200);
    expect(archive.body)
      .to.include('BEGIN:VCARD')
      .and.include('SUMMARY:Meeting')
      .and.include('content of a paper');
  });

  it('goes on at another server if one has stopped', async () => {
    const ada = cloud.mailbox('ada@example.com');
    for (let i = 0; i < 60; i++) ada.message(`m${i}`, `Mail ${i}`);
    const configId = await cloud.config({ backupScope: ['mail'] });
    const stopping = await createTestApp({
      database: cloud.app.database,
      outbound: { allowHttp: true },
      env: cloud.env,
    });
    const [{ id: jobId }] = [
      (await cloud.call('POST', `/c2c/configs/${configId}/run`)).body as { id: string },
    ];
    const second = await cloud.call('POST', `/c2c/configs/${configId}/run`);
    expect([second.status, second.body.details.jobId]).to.deep.equal([409, jobId]);
    await stopping.close();
    expect(await ended(cloud.call, jobId)).to.include({ status: 'completed', itemsNew: 60, itemsFailed: 0 });
    expect(await names(configId)).to.have.length(60);
  });

  it('is cancelled while it waits for the service', async () => {
    cloud.mailbox('ada@example.com').message('m1', 'Mail');
    const configId = await cloud.config({ backupScope: ['mail'] });
    cloud.graph.onCall = () => ({ status: 429, headers: { 'retry-after': '30' } });
    const { body: waiting } = await cloud.call('POST', `/c2c/configs/${configId}/run`);
    await eventually(
      () => cloud.call('GET', `/c2c/jobs/${waiting.id}`),
      ({ body }) => body.status === 'running',
    );
    expect((await cloud.call('POST', `/c2c/jobs/${waiting.id}/cancel`)).status).to.equal(200);
    expect((await ended(cloud.call, waiting.id as string)).status).to.equal('cancelled');
  });
});
