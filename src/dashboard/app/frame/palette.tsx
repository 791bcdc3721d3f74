import { createSpotlight, Spotlight, type SpotlightActionGroupData } from '@mantine/spotlight';
import { useDebouncedValue } from '@mantine/hooks';
import { IconHistory, IconSearch } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery } from '../../api/index.ts';
import { useRecentDevices } from '../../features/devices/index.ts';
import { refusalOf, useMe } from '../../session/index.ts';
import { formatWord } from '../../ui/index.ts';
import { NAVIGATION } from '../navigation.ts';
import { paletteOpensWith } from './palette-control.ts';
import { pageOf } from './search-pages.ts';

const [store, spotlight] = createSpotlight();
paletteOpensWith(spotlight.open);

/** The global search: pages by name, and everything that the search of the server finds. */
export function Palette() {
  const me = useMe();
  const navigate = useNavigate();
  const [query, setQuery] = useState('');
  const [q] = useDebouncedValue(query.trim(), 150);
  const found = useQuery({
    ...apiQuery('GET /search', { query: { q, limit: '20' } }),
    enabled: q.length >= 2,
  });
  const wanted = query.trim().normalize('NFC').toLowerCase();
  const recent = useRecentDevices(me.user.id)
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map(({ id, name }) => ({
      id: `recent:${id}`,
      label: name,
      leftSection: <IconHistory size={18} aria-hidden />,
      onClick: () => void navigate({ to: '/devices/$deviceId', params: { deviceId: id } }),
    }));
  const pages = NAVIGATION.filter(({ requires }) => refusalOf(me, requires) === undefined)
    .filter(({ label }) => label.toLowerCase().includes(wanted))
    .map(({ label, to, icon: Icon }) => ({
      id: `page:${label}`,
      label,
      leftSection: <Icon size={18} aria-hidden />,
      onClick: () => void navigate({ to }),
    }));
  const results = (q.length >= 2 ? (found.data?.results ?? []) : []).flatMap((result) => {
    const page = pageOf(result);
    return page === undefined
      ? []
      : [
          {
            id: `${result.type}:${result.id}`,
            label: result.title,
            description: [formatWord(result.type), result.description].filter(Boolean).join(' · '),
            onClick: () => void navigate(page),
          },
        ];
  });
  const groups: SpotlightActionGroupData[] = [
    { group: 'Recent devices', actions: recent },
    { group: 'Found', actions: results },
    { group: 'Pages', actions: pages },
  ].filter(({ actions }) => actions.length > 0);
  return (
    <Spotlight
      store={store}
      actions={groups}
      // The server and the filter above have searched already.
      filter={(_query, actions) => actions}
      query={query}
      onQueryChange={setQuery}
      nothingFound={found.isFetching ? 'Searching …' : 'Nothing was found.'}
      scrollable
      maxHeight={420}
      shortcut={null}
      searchProps={{
        leftSection: <IconSearch size={18} aria-hidden />,
        placeholder: 'Search devices, people, scripts, pages …',
        'aria-label': 'Search',
      }}
    />
  );
}
