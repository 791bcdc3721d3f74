import { expect } from 'chai';
import { GithubApi } from '../../../../src/features/releases/github-releases.ts';

describe('the notes of a release of GitHub', () => {
  const notesOf = async (body: string | null) => {
    const release = { tag_name: 'v1.2.3', draft: false, prerelease: false, body, assets: [] };
    const fetch = () => Promise.resolve(Response.json([release]));
    const api = new GithubApi({ fetch }, { url: 'https://api.github.test/releases', token: undefined });
    return (await api.list())[0]?.notes;
  };

  it('are kept as they are, within what is stored', async () => {
    expect(await notesOf(' Fixes.\n')).to.equal('Fixes.');
    expect(await notesOf('x'.repeat(2000))).to.equal('x'.repeat(2000));
    expect([await notesOf(''), await notesOf(null)]).to.deep.equal([null, null]);
  });

  it('end with an ellipsis if they are cut', async () => {
    expect(await notesOf('x'.repeat(2001))).to.equal(`${'x'.repeat(1999)}…`);
    expect(await notesOf(`${'x'.repeat(1998)}😀y`)).to.equal(`${'x'.repeat(1998)}…`);
  });
});
