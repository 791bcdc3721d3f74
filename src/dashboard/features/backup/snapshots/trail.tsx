import { Anchor, Breadcrumbs, Text } from '@mantine/core';

/** The folders from the root to the one that is shown. */
export function Trail({
  root,
  path,
  onOpen,
}: {
  /** What the root is called. */
  root: string;
  path: string;
  /** Without a path, the root is opened. */
  onOpen: (path: string | undefined) => void;
}) {
  const names = path.split('/').filter((name) => name !== '');
  return (
    <Breadcrumbs component="nav" aria-label="Folder" separatorMargin={6}>
      {[root, ...names].map((name, depth) => {
        const folder = depth === 0 ? undefined : `/${names.slice(0, depth).join('/')}`;
        return depth === names.length ? (
          <Text key={folder ?? '/'} size="sm" fw={600} aria-current="page">
            {name}
          </Text>
        ) : (
          <Anchor
            key={folder ?? '/'}
            component="button"
            type="button"
            size="sm"
            onClick={() => onOpen(folder)}
          >
            {name}
          </Anchor>
        );
      })}
    </Breadcrumbs>
  );
}
