import { expect } from 'chai';
import fc from 'fast-check';
import { discordRequest, discordText } from '../../../../src/features/notifications/payloads/discord.ts';
import { escapedHtml, notificationMail } from '../../../../src/features/notifications/payloads/mail.ts';
import {
  cut,
  cutBytes,
  type Message,
  oneLine,
  titleOf,
} from '../../../../src/features/notifications/payloads/message.ts';
import { ntfyRequest } from '../../../../src/features/notifications/payloads/ntfy.ts';
import { dedupKey, pagerDutyRequest } from '../../../../src/features/notifications/payloads/pagerduty.ts';
import { slackRequest, slackText } from '../../../../src/features/notifications/payloads/slack.ts';
import { teamsRequest } from '../../../../src/features/notifications/payloads/teams.ts';

const LINKS = { baseUrl: 'https://rmm.example.com' };
const URL = 'https://hooks.example.com/x';

const nasty = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 300 }),
  fc.string({ unit: 'binary', maxLength: 300 }).map((text) => text.toWellFormed()),
  fc.constantFrom(
    '<!channel>',
    '<@U123> & <http://evil|x>',
    '@everyone',
    '[x](http://evil)',
    'a\r\nBcc: b@evil.test',
    '\u202Egnp.exe',
    '&<>'.repeat(700),
    '😀'.repeat(150),
  ),
);
const severity = fc.constantFrom('critical', 'high', 'medium', 'low', 'info');
const message: fc.Arbitrary<Message> = fc
  .record({
    reason: fc.constantFrom('raised', 'escalated', 'repeated', 'acknowledged', 'resolved', 'test'),
    title: nasty,
    threadTitle: nasty,
    severity,
    count: fc.integer({ min: 0, max: 10_000 }),
    alerts: fc.array(
      fc.record({
        id: fc.uuid(),
        title: nasty,
        message: nasty.map((text) => text.repeat(7).slice(0, 2000).toWellFormed()),
        severity,
        kind: fc.constant('device_offline'),
        raisedAt: fc.constant('2026-06-05T12:00:00.000Z'),
      }),
      { maxLength: 5 },
    ),
    organization: fc.option(nasty, { nil: null }),
    policy: fc.option(nasty, { nil: null }),
    text: fc.option(nasty, { nil: null }),
  })
  .map((content) => ({
    id: '01900000-0000-7000-8000-000000000001',
    at: new Date('2026-06-05T12:00:00Z'),
    content: { ...content, groupId: '01900000-0000-7000-8000-000000000002', orgId: null },
  }));

describe('a message to Slack', () => {
  it('keeps its limits and has no mention, whatever a device is called', () => {
    fc.assert(
      fc.property(message, (one) => {
        const body = JSON.parse(slackRequest(URL, one, LINKS).body);
        for (const { type, text } of body.blocks) {
          if (type === 'header') expect(text.text.length).to.be.at.most(150);
          if (type === 'section') expect(text.text.length).to.be.at.most(3000);
        }
        const texts = [
          body.text,
          ...body.blocks.map(({ text }: { text?: { text: string } }) => text?.text ?? ''),
        ];
        // The only angle brackets are those of our own link.
        for (const text of texts) {
          expect(
            text.replace(/<https:\/\/rmm\.example\.com\/alerts[^|>]*\|Open in Muster>/, ''),
          ).not.to.match(/[<>]/);
        }
      }),
    );
  });

  it('has whole escapes, also where it is cut', () => {
    fc.assert(
      fc.property(nasty, fc.integer({ min: 5, max: 100 }), (text, max) => {
        const escaped = slackText(text, max);
        expect(escaped.length).to.be.at.most(max);
        expect(escaped.replaceAll(/&(amp|lt|gt);/g, '')).not.to.match(/[&<>]/);
      }),
    );
  });
});

describe('a message to Teams', () => {
  it('is one Adaptive Card of at most 28 KB, whose texts are no Markdown', () => {
    fc.assert(
      fc.property(message, (one) => {
        const { body } = teamsRequest(URL, one, LINKS);
        expect(Buffer.byteLength(body)).to.be.at.most(28 * 1024);
        const [{ contentType, content }] = JSON.parse(body).attachments;
        expect(contentType).to.equal('application/vnd.microsoft.card.adaptive');
        for (const { type, inlines } of content.body) {
          expect([type, inlines[0].type]).to.deep.equal(['RichTextBlock', 'TextRun']);
        }
      }),
    );
  });
});

describe('a message to Discord', () => {
  it('keeps its limits and mentions nobody', () => {
    fc.assert(
      fc.property(message, (one) => {
        const { embeds, allowed_mentions: mentions } = JSON.parse(discordRequest(URL, one, LINKS).body);
        expect(mentions).to.deep.equal({ parse: [] });
        const [{ title, description, footer }] = embeds;
        expect(title.length).to.be.at.most(256);
        expect(description.length).to.be.at.most(4096);
        expect(title.length + description.length + (footer?.text.length ?? 0)).to.be.at.most(6000);
      }),
    );
  });

  it('has no Markdown of others', () => {
    expect(discordText('[x](http://evil) **b** @everyone', 100)).to.equal(
      String.raw`\[x\]\(http\://evil\) \*\*b\*\* \@everyone`,
    );
  });
});

describe('an event to PagerDuty', () => {
  it('keeps its limits, and has one key for a conversation', () => {
    fc.assert(
      fc.property(message, (one) => {
        const event = JSON.parse(pagerDutyRequest(URL, 'k', one, LINKS).body);
        expect(event.dedup_key).to.equal(dedupKey(one.content.groupId));
        expect(event.dedup_key.length).to.be.at.most(255);
        if (event.event_action !== 'trigger') return;
        expect(event.payload.summary.length).to.be.at.most(1024);
        expect(['critical', 'error', 'warning', 'info']).to.include(event.payload.severity);
      }),
    );
  });
});

describe('a message to ntfy', () => {
  it('keeps its limits in bytes', () => {
    fc.assert(
      fc.property(message, (one) => {
        const { url, headers, body } = ntfyRequest({ server: URL, topic: 't', token: null }, one, LINKS);
        expect([url, headers['authorization']]).to.deep.equal([URL, undefined]);
        const sent = JSON.parse(body);
        expect(Buffer.byteLength(sent.message)).to.be.at.most(4096);
        expect(Buffer.byteLength(sent.title)).to.be.at.most(250);
        expect(sent.priority).to.be.within(1, 5);
      }),
    );
  });
});

describe('a mail', () => {
  it('has a subject of one line, and no tag of others in its HTML', () => {
    fc.assert(
      fc.property(message, (one) => {
        const {
          subject,
          html = '',
          messageId = '',
          references = '',
        } = notificationMail('a@example.com', one, LINKS);
        expect(subject).not.to.match(/[\r\n\0]/);
        expect(subject.length).to.be.at.most(204);
        expect([messageId, references]).to.deep.equal([
          `<${one.id}@rmm.example.com>`,
          `<${one.content.groupId}@rmm.example.com>`,
        ]);
        expect(new Set(html.match(/<\/?[a-z0-9!]+/gi))).to.satisfy((tags: Set<string>) =>
          [...tags].every((tag) => /^<\/?(!doctype|html|head|meta|title|body|div|h1|p|a)$/i.test(tag)),
        );
      }),
    );
  });

  it('escapes what HTML takes for its own', () => {
    expect(escapedHtml(`<a href="x" b='y'>&`)).to.equal('&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;');
  });
});

describe('a text that is cut', () => {
  it('is not longer than it may be, and stays well formed', () => {
    fc.assert(
      fc.property(nasty, fc.integer({ min: 4, max: 200 }), (text, max) => {
        const [short, bytes] = [cut(text, max), cutBytes(text, max)];
        expect(short.length).to.be.at.most(max);
        expect(Buffer.byteLength(bytes)).to.be.at.most(max);
        expect([short.isWellFormed(), bytes.isWellFormed()]).to.deep.equal([true, true]);
        expect(oneLine(text)).not.to.match(/[\r\n\u2028\u2029\u202e]/);
      }),
    );
  });

  it('says how many alerts there are, and at which site', () => {
    expect(titleOf(1, 'A is offline', 'Lisbon')).to.equal('A is offline');
    expect(titleOf(12, 'A is offline', 'Lisbon')).to.equal('12 alerts at Lisbon: A is offline and others');
  });
});
