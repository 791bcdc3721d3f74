import { IconPlus } from '@tabler/icons-react';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useList, type Script } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  formatDuration,
  ListPage,
  NameCell,
  useAddress,
  When,
  SYSTEM_NAMES,
} from '../../ui/index.ts';
import { ScriptsFrame } from './scripts-frame.tsx';

const route = getRouteApi('/signed-in/scripts');

/** Scripts that are kept to be run again. */
export function ScriptsPage() {
  const address = useAddress(route.useSearch());
  const { q, language, page = 1 } = address.search;
  const open = useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('scripts:write');
  const scripts = useList('GET /scripts', { query: { orgId, search: q, language, page: String(page) } });
  const newScript = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => void open({ to: '/scripts/new' })}>
      New script
    </Action>
  );
  return (
    <ListPage
      frame={ScriptsFrame}
      title="Scripts"
      description="What is run on devices again and again."
      actions={newScript}
      query={scripts}
      noun="scripts"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { kind: 'text', name: 'q', label: 'Search scripts', placeholder: 'Search names' },
        {
          kind: 'choice',
          name: 'language',
          label: 'Language',
          any: 'Any language',
          options: LANGUAGES.map((value) => ({ value, label: LANGUAGE_NAMES[value] })),
        },
      ]}
      empty={{
        title: 'No scripts yet',
        text: 'A script is written once and run on any number of devices, with parameters and secrets.',
        action: newScript,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name, description }) => (
            <NameCell
              name={name}
              description={description}
              to="/scripts/$scriptId"
              params={{ scriptId: id }}
            />
          ),
        },
        { header: 'Language', width: 110, cell: (script) => LANGUAGE_NAMES[script.language] },
        { header: 'Runs on', cell: systemsText },
        {
          header: 'For',
          cell: (script) => (script.orgId === null ? 'All organizations' : names.organization(script.orgId)),
        },
        {
          header: 'Timeout',
          align: 'right',
          width: 110,
          cell: ({ timeoutSeconds }) => formatDuration(timeoutSeconds * 1000),
        },
        { header: 'Changed', width: 110, cell: ({ updatedAt }) => <When at={updatedAt} /> },
      ]}
    />
  );
}

export const LANGUAGES = ['bash', 'powershell', 'python'] as const satisfies readonly Script['language'][];
export const LANGUAGE_NAMES: Record<Script['language'], string> = {
  bash: 'Bash',
  powershell: 'PowerShell',
  python: 'Python',
};
export const SYSTEMS = ['windows', 'macos', 'linux'] as const satisfies readonly Script['osTypes'][number][];

const systemsText = ({ osTypes }: Pick<Script, 'osTypes'>): string =>
  osTypes.length === 0 ? 'Any system' : osTypes.map((system) => SYSTEM_NAMES[system]).join(', ');
