import { expect } from 'chai';
import { z } from 'zod';
import { iCalendarOf, vCardOf } from '../../../../src/features/cloud-backup/export-formats.ts';
import { graphFailure } from '../../../../src/features/cloud-backup/graph-client.ts';
import { KINDS } from '../../../../src/features/cloud-backup/graph-kinds.ts';
import { GraphPage, type KindName, listAll } from '../../../../src/features/cloud-backup/item-kind.ts';
import { answeringGraph, jsonAnswer } from '../../../support/cloud-backup/answering-graph.ts';
import { describeRecorded, type Recorded } from '../../../support/recorded.ts';

/** Pages, items and errors of Microsoft Graph. */

const Line = z.object({ source: z.string(), body: z.unknown() });
const Item = z.looseObject({ id: z.string() });
type Item = z.output<typeof Item>;
const Address = z.object({ emailAddress: z.looseObject({ address: z.string() }) });

const CONTAINER = { id: 'container', path: '/Folder' };

describeRecorded('m365/graph', 'what Microsoft Graph has answered', (recordings) => {
  const bodies = linesOf(recordings, (file) => !file.includes('errors'));
  const pages = bodies.filter((body) => GraphPage.safeParse(body).success);
  const items = bodies.flatMap((body) => itemsIn(body));

  it('is read page by page, and no record is left out', async () => {
    const withValues = bodies.filter(
      (body) => z.object({ value: z.array(z.unknown()) }).safeParse(body).success,
    );
    expect(pages).to.have.length(withValues.length);
    expect(pages.length).to.be.greaterThan(100);
    for (const body of pages) {
      const { value, '@odata.nextLink': next } = GraphPage.parse(body);
      const asked: string[] = [];
      const { graph } = answeringGraph((url) => {
        asked.push(url);
        return jsonAnswer(asked.length === 1 ? body : { value: [{ id: 'on the next page' }] });
      });
      const found = await listAll(graph, '/first', z.unknown());
      const ofNext = next === undefined ? [] : [{ id: 'on the next page' }];
      expect(found).to.deep.equal([...value, ...ofNext]);
      if (next !== undefined) expect(asked[1]).to.equal(new URL(next).href);
    }
    expect(pages.filter((body) => JSON.stringify(body).includes('@odata.nextLink'))).to.have.length(10);
  });

  it('has messages, events and files whose fields are kept', () => {
    const counts: Partial<Record<KindName, number>> = {};
    for (const record of items) {
      const kind = kindOf(record);
      if (kind === undefined) continue;
      counts[kind] = (counts[kind] ?? 0) + 1;
      const listed = KINDS[kind].read(record, CONTAINER);
      expect(listed?.record).to.equal(record);
      expect(listed).to.include({ id: record.id, isRemoved: false });
      expect(listed?.etag).to.equal(record['changeKey'] ?? record['cTag']);
      expect(listed?.name).to.equal(record['subject'] ?? record['name']);
      const at = record['receivedDateTime'] ?? record['lastModifiedDateTime'];
      if (kind !== 'calendar') expect(listed?.itemDate).to.deep.equal(new Date(String(at)));
      if (kind === 'onedrive') expect(listed?.sizeBytes).to.equal(record['size']);
    }
    expect(counts.mail).to.be.greaterThan(3);
    expect(counts.calendar).to.be.greaterThan(3);
    expect(counts.onedrive).to.be.greaterThan(10);
  });

  it('has events that are exported with their time and all who take part', () => {
    for (const event of items.filter((record) => kindOf(record) === 'calendar')) {
      const text = calendarText(event);
      expect(text).to.match(/\r\nDTSTART:\d{8}T\d{6}Z\r\nDTEND:\d{8}T\d{6}Z\r\n/);
      const attendees = z.array(Address).catch([]).parse(event['attendees']);
      expect(attendeesIn(text)).to.deep.equal(attendees.map(({ emailAddress: { address } }) => address));
    }
  });

  it('has errors whose code and sentence are shown', () => {
    const errors = linesOf(recordings, (file) => file.includes('errors')).map(unwrapped);
    expect(errors).to.have.length(168);
    let withSentence = 0;
    for (const body of errors) {
      const failure = graphFailure(400, body);
      expect(failure.code).to.match(/^[\w.-]{1,90}$/);
      const { code, sentence } = saidIn(body);
      expect(failure.code).to.equal(code?.replaceAll(/[, ]/g, '') ?? 'HTTP_400');
      if (sentence === undefined) continue;
      withSentence += 1;
      expect(failure.message).to.include(sentence.replaceAll(/[\r\n]/g, ' ').slice(0, 300));
    }
    expect(withSentence).to.be.greaterThan(160);
  });
});

describeRecorded('m365/messages', 'messages and contacts of Microsoft Graph', ({ files, text }) => {
  const read = (file: string): Item => Item.parse(JSON.parse(text(file)));

  it('are read with their sender and their subject', () => {
    const messages = files.filter((file) => file.includes('email'));
    expect(messages).to.have.length(4);
    for (const file of messages) {
      const message = read(file);
      const { address, name } = Address.parse(message['from']).emailAddress;
      const listed = KINDS.mail.read(message, CONTAINER);
      expect(listed, file).to.deep.include({
        id: message.id,
        etag: message['changeKey'],
        name: message['subject'],
        itemDate: new Date(String(message['receivedDateTime'])),
        record: message,
        metadata: {
          from: address,
          fromName: name,
          internetMessageId: message['internetMessageId'],
          hasAttachments: message['hasAttachments'],
        },
      });
    }
  });

  it('have a contact of which a vCard keeps what it can say', () => {
    const contact = read('corso-contact.json');
    const card = unfolded(vCardOf(Buffer.from(JSON.stringify(contact))));
    const fields = [
      'displayName',
      'companyName',
      'department',
      'jobTitle',
      'middleName',
      'generation',
      'nickName',
    ];
    const further = ['mobilePhone', 'personalNotes', 'givenName', 'surname'];
    for (const field of [...fields, ...further]) expect(card, field).to.include(String(contact[field]));
    expect(card).to.include('BDAY:2012-09-11');
    expect(card).to.include('ADR;TYPE=HOME:;;Street Name;City Name;Province Name;090909;Country');
    expect(card).to.include(
      'ADR;TYPE=WORK:;;Business Stree;Businss City;Business State;888888;Business Country',
    );
    expect(card).to.include('ADR:;;Another street;;;;');
    expect(card.match(/EMAIL/g)).to.have.length(2);
    expect(KINDS.contacts.read(contact, CONTAINER)).to.include({
      name: contact['displayName'],
      etag: contact['changeKey'],
      record: contact,
    });
  });

  it('have an event in a message, which is exported with the last day of its series', () => {
    const { event } = z.object({ event: Item }).parse(read('corso-email-with-event-object.json'));
    const exported = calendarText(event);
    expect(exported).to.include('RRULE:FREQ=DAILY;INTERVAL=1;UNTIL=20240125T235959Z');
    expect(exported).to.include('X-ALT-DESC;FMTTYPE=text/html:<html>');
    expect(exported).to.include('Passcode: </span>');
    expect(attendeesIn(exported)).to.deep.equal(['PradeepG@10rqc2.onmicrosoft.com']);
  });
});

function linesOf({ files, text }: Recorded, isWanted: (file: string) => boolean): unknown[] {
  const lines = files.filter(isWanted).flatMap((file) => text(file).trim().split('\n'));
  return lines.map((line) => Line.parse(JSON.parse(line)).body);
}

/** Some recordings are a page, some its list, and some a single item. */
function itemsIn(body: unknown): Item[] {
  const { data } = GraphPage.safeParse(body);
  const records = data?.value ?? (Array.isArray(body) ? body : [body]);
  return records.flatMap((record: unknown) => Item.safeParse(record).data ?? []);
}

function kindOf(record: Item): KindName | undefined {
  if (record['internetMessageId'] !== undefined) return 'mail';
  if (record['start'] !== undefined && record['organizer'] !== undefined) return 'calendar';
  return record['cTag'] !== undefined && record['file'] !== undefined ? 'onedrive' : undefined;
}

const calendarText = (event: Item): string =>
  unfolded(
    iCalendarOf(Buffer.from(JSON.stringify({ event, exceptions: [], cancelled: [], attachments: [] }))),
  );

const unfolded = (text: Buffer): string => text.toString().replaceAll('\r\n ', '');

const attendeesIn = (text: string) =>
  [...text.matchAll(/\r\nATTENDEE:mailto:([^\r]*)/g)].map(([, address]) => address);

/** The program that recorded them puts the answer into an `error` of its own. */
function unwrapped(body: unknown): unknown {
  const { data } = z.object({ error: z.looseObject({}) }).safeParse(body);
  const isWrapped = data !== undefined && ('error' in data.error || 'odata.error' in data.error);
  return isWrapped ? data.error : body;
}

/** What an error says, found without the product: the first code and the first sentence in it. */
function saidIn(body: unknown): { code: string | undefined; sentence: string | undefined } {
  const { error, 'odata.error': ofSharePoint } = z.looseObject({}).parse(body);
  if (typeof error === 'string') return { code: undefined, sentence: error };
  const said = z
    .looseObject({ code: z.string().optional(), message: z.unknown() })
    .catch({ code: undefined, message: undefined })
    .parse(error ?? ofSharePoint);
  const { data } = z.object({ value: z.string() }).safeParse(said.message);
  return { code: said.code, sentence: typeof said.message === 'string' ? said.message : data?.value };
}
