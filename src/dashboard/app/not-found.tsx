import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Empty } from '../ui/index.ts';

export function NotFound() {
  return (
    <Empty
      title="There is no such page"
      action={<Anchor renderRoot={(props) => <Link {...props} to="/" />}>Go to the overview</Anchor>}
    >
      The address may be mistyped, or what it showed may have been deleted.
    </Empty>
  );
}
