import { expect } from 'chai';
import { z } from 'zod';
import { graphFailure, GraphError, Postponed } from '../../../../src/features/cloud-backup/graph-client.ts';
import { listAll } from '../../../../src/features/cloud-backup/item-kind.ts';
import { answeringGraph, GRAPH_URL, jsonAnswer } from '../../../support/cloud-backup/answering-graph.ts';

const Folder = z.object({ id: z.string() });

const codeOf = (attempt: Promise<unknown>): Promise<unknown> =>
  attempt.then(
    () => 'it succeeded',
    (error: unknown) => (error instanceof GraphError ? error.code : error),
  );

describe('a list of Microsoft Graph', () => {
  it('is read to its end, however long it is', async () => {
    const { graph } = answeringGraph((url) => {
      const page = Number(new URL(url).searchParams.get('page'));
      const value = Array.from({ length: 100 }, (_, index) => ({ id: `${page}-${index}` }));
      return jsonAnswer({
        value,
        ...(page < 119 ? { '@odata.nextLink': `${GRAPH_URL}/list?page=${page + 1}` } : {}),
      });
    });
    const found = await listAll(graph, '/list?page=0', Folder);
    expect(found).to.have.length(12_000);
    expect(found.at(-1)).to.deep.equal({ id: '119-99' });
  });

  // The items of a folder that is not in the list would be marked as removed.
  it('fails if a record of it cannot be read', async () => {
    const { graph } = answeringGraph(() => jsonAnswer({ value: [{ id: 'a' }, { name: 'without one' }] }));
    expect(await codeOf(listAll(graph, '/list', Folder))).to.equal('GRAPH_ANSWER_INVALID');
  });

  it('fails if it has no end', async () => {
    const endless = { value: [], '@odata.nextLink': `${GRAPH_URL}/list?again` };
    const { graph } = answeringGraph(() => jsonAnswer(endless));
    expect(await codeOf(listAll(graph, '/list', Folder))).to.equal('ENDLESS_LIST');
  });

  it('is postponed as long as Graph asks for', async () => {
    const busy = { error: { code: 'TooManyRequests', message: 'Please retry after' } };
    const { graph, held } = answeringGraph(() => jsonAnswer(busy, 429, { 'retry-after': '120' }));
    const failure = await listAll(graph, '/list', Folder).catch((error: unknown) => error);
    expect(failure).to.be.instanceOf(Postponed);
    expect(held).to.have.length(1);
  });
});

describe('an error of Microsoft Graph', () => {
  it('is shown with its code and its sentence, in every form that it has', () => {
    const forms: [unknown, code: string, sentence: string][] = [
      [{ error: { code: 'ErrorAccessDenied', message: 'Denied.' } }, 'ErrorAccessDenied', 'Denied.'],
      [{ error: { message: 'Insufficient privileges.' } }, 'HTTP_403', 'Insufficient privileges.'],
      [{ error: { code: 'Forbidden', message: null } }, 'Forbidden', 'Forbidden'],
      [{ error: { code: 'accessDenied', message: { lang: 'en-US', value: 'No.' } } }, 'accessDenied', 'No.'],
      [
        { 'odata.error': { code: '-1, Microsoft.SharePoint.SPException', message: { value: 'It exists.' } } },
        '-1Microsoft.SharePoint.SPException',
        'It exists.',
      ],
      [{ error: 'Access denied.' }, 'HTTP_403', 'Access denied.'],
      [{ error: null }, 'HTTP_403', 'HTTP_403'],
      ['<html>', 'HTTP_403', 'HTTP_403'],
      [undefined, 'HTTP_403', 'HTTP_403'],
    ];
    for (const [body, code, sentence] of forms) {
      const failure = graphFailure(403, body);
      expect([failure.code, failure.message]).to.deep.equal([
        code,
        `Microsoft Graph answered 403: ${sentence}`,
      ]);
    }
  });
});
