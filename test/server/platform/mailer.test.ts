import { expect } from 'chai';
import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import path from 'node:path';
import { createDelivery, tidyMailFolder, createMailer } from '../../../src/platform/mail.ts';
import { eventually } from '../../support/eventually.ts';
import { createMailbox, type Mailbox } from '../../support/mailbox.ts';
import { recordingLog } from '../../support/quiet-log.ts';
import { withSystem } from '../../../src/platform/db/transaction.ts';
import { createJobsBench, type JobsBench } from '../../support/platform/jobs/jobs-support.ts';

/** As much of a mail server as it takes to be given a mail. The first `busy` of them it defers. */
async function smtpSink({ busy = 0 } = {}): Promise<{ url: string; received: string[]; server: Server }> {
  const received: string[] = [];
  const server = createServer((socket) => {
    let inData = false;
    let pending = '';
    socket.on('error', () => {});
    socket.write('220 sink ready\r\n');
    socket.on('data', (chunk) => {
      pending += chunk.toString('utf8');
      for (;;) {
        const end = pending.indexOf(inData ? '\r\n.\r\n' : '\r\n');
        if (end < 0) return;
        const line = pending.slice(0, end);
        pending = pending.slice(end + (inData ? 5 : 2));
        if (inData) {
          received.push(line);
          inData = false;
          socket.write('250 taken\r\n');
        } else if (line.startsWith('EHLO')) socket.write('250 sink\r\n');
        else if (busy > 0 && line.startsWith('MAIL')) {
          busy -= 1;
          socket.write('451 come back later\r\n');
        } else if (line === 'DATA') {
          inData = true;
          socket.write('354 go on\r\n');
        } else if (line.includes('refused@')) socket.write('550 nobody here\r\n');
        else socket.write('250 fine\r\n');
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`, received, server };
}

const FROM = 'Muster <muster@example.com>';
const MAIL = { to: 'ada@example.com', subject: 'Grüße', text: 'See https://x.example/#token=s3cr3t-t0ken' };

describe('the delivery of mails', () => {
  let mailbox: Mailbox;
  beforeEach(async () => {
    mailbox = await createMailbox();
  });
  afterEach(async () => mailbox.remove());

  const delivery = (smtpUrl?: string, folderLimits?: { files: number; days: number }) => {
    const { log, lines } = recordingLog();
    const limits = folderLimits === undefined ? {} : { folderLimits };
    return {
      lines,
      deliver: createDelivery({ smtpUrl, from: FROM, dataDir: mailbox.dataDir, log, ...limits }),
    };
  };

  it('writes files that only their owner reads if there is no server, and keeps the text out of the log', async () => {
    const { deliver, lines } = delivery();
    await deliver(MAIL);
    const [file] = await mailbox.files();
    expect((await stat(file!)).mode & 0o777).to.equal(0o600);
    const text = await readFile(file!, 'utf8');
    expect(text).to.contain('To: ada@example.com').and.contain('From: Muster <muster@example.com>');
    expect(await mailbox.newest(MAIL.to)).to.contain('#token=s3cr3t-t0ken');
    expect(lines.map(({ event }) => event)).to.deep.equal(['mail.written']);
    expect(JSON.stringify(lines)).not.to.contain('s3cr3t');
  });

  it('keeps no more files than its folder may hold, the newest, and none that is too old', async () => {
    const { deliver } = delivery(undefined, { files: 3, days: 30 });
    for (let n = 1; n <= 5; n++) await deliver({ ...MAIL, to: `ada-${n}@example.com` });
    const kept = await mailbox.files();
    expect(kept).to.have.length(3);
    const texts = await Promise.all(kept.map((file) => readFile(file, 'utf8')));
    for (const n of [3, 4, 5]) {
      expect(
        texts.some((text) => text.includes(`ada-${n}@example.com`)),
        String(n),
      ).to.equal(true);
    }

    const folder = path.dirname(kept[0]!);
    const draft = path.join(folder, '00000000-0000-7000-8000-000000000000.eml.123.tmp');
    await writeFile(draft, 'half a mail');
    const long = new Date(Date.now() - 40 * 24 * 3_600_000);
    await utimes(draft, long, long);
    await tidyMailFolder(folder);
    expect(await mailbox.files()).to.have.length(3);
    expect(await readdir(folder)).to.have.length(3);
  });

  it('takes a header for text, never for a second header', async () => {
    const { deliver } = delivery();
    await deliver({ ...MAIL, subject: 'Hello\r\nBcc: eve@example.com' });
    expect(await mailbox.newest(MAIL.to)).not.to.match(/^Bcc:/m);
  });

  it('hands mails to a server', async () => {
    const sink = await smtpSink();
    const { deliver, lines } = delivery(sink.url);
    await Promise.all(Array.from({ length: 5 }, (_, i) => deliver({ ...MAIL, to: `ada-${i}@example.com` })));
    sink.server.close();
    expect(sink.received).to.have.lengthOf(5);
    expect(sink.received.join('\n')).to.contain('To: ada-3@example.com');
    expect(JSON.stringify(lines)).not.to.contain('s3cr3t');
    expect(await mailbox.files()).to.deep.equal([]);
  });
});

describe('the outbox of mails', () => {
  let bench: JobsBench;
  beforeEach(async () => {
    bench = await createJobsBench();
  });
  afterEach(async () => bench.drop());

  /** A server whose mails go to the sink. */
  const mailServer = (smtpUrl: string) => {
    const server = bench.server();
    const { log, lines } = recordingLog();
    const deliver = createDelivery({ smtpUrl, from: FROM, dataDir: '/nowhere', log });
    return { server, lines, mailer: createMailer(server, deliver) };
  };
  const states = async () => (await bench.rows()).map(({ state }) => state);
  const soon = () => bench.owner(`update background_jobs set run_at = now() where state = 'queued'`);

  it('sends what was committed, and nothing that was undone', async () => {
    const sink = await smtpSink();
    const { server, mailer } = mailServer(sink.url);
    server.start();
    await withSystem(server.db, 'test', async (tx) => {
      await mailer.send(tx, { ...MAIL, to: 'undone@example.com' });
      throw new Error('the action fails');
    }).catch(() => undefined);
    await withSystem(server.db, 'test', (tx) => mailer.send(tx, MAIL));
    await eventually(
      () => sink.received.length,
      (count) => count > 0,
    );
    await server.stop();
    sink.server.close();
    expect(sink.received.join()).to.contain('To: ada@example.com').and.not.contain('undone@');
    expect(sink.received).to.have.length(1);
  });

  it('keeps mails for a server that starts later, sealed until they are sent', async () => {
    const sink = await smtpSink();
    const first = mailServer(sink.url);
    await withSystem(first.server.db, 'test', (tx) => first.mailer.send(tx, MAIL));
    await first.server.stop();
    const stored = async () => JSON.stringify(await bench.owner('select * from background_jobs'));
    expect(await stored()).to.contain('"sealed_input":"v1.');
    expect(await stored()).not.to.match(/ada@example|s3cr3t/);
    const second = mailServer(sink.url);
    second.server.start();
    await eventually(states, ([state]) => state === 'succeeded');
    sink.server.close();
    expect(sink.received).to.have.length(1);
    expect(await stored()).to.contain('"sealed_input":null');
  });

  it('tries again if the mail server defers a mail', async () => {
    const sink = await smtpSink({ busy: 1 });
    const { server, mailer } = mailServer(sink.url);
    server.start();
    await withSystem(server.db, 'test', (tx) => mailer.send(tx, MAIL));
    await eventually(
      () => server.lines.map(({ event }) => event),
      (events) => events.includes('mail.failed'),
    );
    await eventually(
      async () => {
        await soon();
        return states();
      },
      ([state]) => state === 'succeeded',
    );
    sink.server.close();
    expect(sink.received).to.have.length(1);
  });

  it('gives up a mail that the server refuses for good, logs it for the operator, and sends the others', async () => {
    const sink = await smtpSink();
    const { server, mailer, lines } = mailServer(sink.url);
    server.start();
    await withSystem(server.db, 'test', async (tx) => {
      await mailer.send(tx, { ...MAIL, to: 'refused@example.com' });
      await mailer.send(tx, MAIL);
    });
    await eventually(states, (all) => all.join() === 'failed,succeeded');
    sink.server.close();
    expect(lines.map(({ event }) => event)).to.have.members(['mail.sent']);
    expect(server.lines.filter(({ event }) => event === 'mail.failed')).to.have.length(1);
    expect(server.lines.find(({ event }) => event === 'job.failed')).to.include({
      job: 'mail.send',
      level: 'error',
    });
    expect(JSON.stringify(server.lines)).not.to.contain('s3cr3t');
    expect(JSON.stringify(await bench.owner('select * from background_jobs'))).not.to.match(/s3cr3t|v1\./);
    expect(await server.metrics.registry.metrics()).to.contain(
      'muster_job_attempts_total{job="mail.send",outcome="failed"} 1',
    );
  });

  it('forgets a mail once the link in it has expired', async () => {
    const sink = await smtpSink();
    const { server, mailer } = mailServer(sink.url);
    await withSystem(server.db, 'test', (tx) => mailer.send(tx, MAIL, { validForMs: 0 }));
    server.start();
    await eventually(states, ([state]) => state === 'failed');
    sink.server.close();
    expect(sink.received).to.deep.equal([]);
  });
});
