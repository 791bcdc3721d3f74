import { expect } from 'chai';
import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type Server } from 'node:net';
import path from 'node:path';
import { createMailer } from '../../src/platform/mail/mailer.ts';
import { tidyMailFolder } from '../../src/platform/mail/mail-folder.ts';
import { eventually } from '../support/eventually.ts';
import { createMailbox, type Mailbox } from '../support/mailbox.ts';
import { recordingLog } from '../support/quiet-log.ts';

/** As much of a mail server as it takes to be given a mail. */
async function smtpSink(): Promise<{ url: string; received: string[]; server: Server }> {
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
        else if (line === 'DATA') {
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

describe('the mailer', () => {
  let mailbox: Mailbox;
  beforeEach(async () => {
    mailbox = await createMailbox();
  });
  afterEach(async () => mailbox.remove());

  const mailer = (smtpUrl?: string) => {
    const { log, lines } = recordingLog();
    const from = 'Muster <muster@example.com>';
    return { lines, ...createMailer({ smtpUrl, from, dataDir: mailbox.dataDir, log }) };
  };
  const MAIL = { to: 'ada@example.com', subject: 'Grüße', text: 'See https://x.example/#token=s3cr3t-t0ken' };

  it('writes mails that only their owner reads where there is no server, and keeps what they say out of the log', async () => {
    const { post, close, lines } = mailer();
    post(MAIL);
    await close();
    const [file] = await mailbox.files();
    expect((await stat(file!)).mode & 0o777).to.equal(0o600);
    const text = await readFile(file!, 'utf8');
    expect(text).to.contain('To: ada@example.com').and.contain('From: Muster <muster@example.com>');
    expect(await mailbox.newest(MAIL.to)).to.contain('#token=s3cr3t-t0ken');
    expect(lines.map(({ event }) => event)).to.deep.equal(['mail.written']);
    expect(JSON.stringify(lines)).not.to.contain('s3cr3t');
  });

  it('keeps no more files than its folder may hold, the newest, and none that is too old', async () => {
    const { log, lines } = recordingLog();
    const { post, close } = createMailer({
      smtpUrl: undefined,
      from: 'a@example.com',
      dataDir: mailbox.dataDir,
      log,
      folderLimits: { files: 3, days: 30 },
    });
    for (let n = 1; n <= 5; n++) {
      post({ ...MAIL, to: `ada-${n}@example.com` });
      // One after the other: their order is what is asked for.
      await eventually(
        () => lines.filter(({ event }) => event === 'mail.written').length,
        (written) => written === n,
      );
    }
    await close();
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

  it('hands mails to a server, and is done when all are handed over', async () => {
    const sink = await smtpSink();
    const { post, close, lines } = mailer(sink.url);
    for (let i = 0; i < 5; i++) post({ ...MAIL, to: `ada-${i}@example.com` });
    post(async () => undefined);
    await close();
    sink.server.close();
    expect(sink.received).to.have.lengthOf(5);
    expect(sink.received.join('\n')).to.contain('To: ada-3@example.com');
    expect(JSON.stringify(lines)).not.to.contain('s3cr3t');
    expect(await mailbox.files()).to.deep.equal([]);
  });

  it('logs a mail that cannot be sent, and goes on', async () => {
    const sink = await smtpSink();
    const { post, close, lines } = mailer(sink.url);
    post({ ...MAIL, to: 'refused@example.com' });
    post(() => Promise.reject(new Error('no such table')));
    post(MAIL);
    await close();
    sink.server.close();
    expect(lines.map(({ event }) => event)).to.have.members(['mail.failed', 'mail.failed', 'mail.sent']);
    expect(JSON.stringify(lines)).not.to.contain('s3cr3t');
    expect(sink.received).to.have.lengthOf(1);
  });

  it('takes a header for text, never for a second header', async () => {
    const { post, close } = mailer();
    post({ ...MAIL, subject: 'Hello\r\nBcc: eve@example.com' });
    await close();
    expect(await mailbox.newest(MAIL.to)).not.to.match(/^Bcc:/m);
  });
});
