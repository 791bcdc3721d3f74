import { Link, useLocation, type LinkProps } from '@tanstack/react-router';
import styles from './area-page.module.css';
import { Page, type PageProps } from './page.tsx';

/** One page of an area. `below` is how the addresses of the pages below it begin. */
export interface Place {
  to: NonNullable<LinkProps['to']>;
  label: string;
  below?: string;
}

/** A page of an area, with the way to the other pages of the area. */
export function AreaPage({
  label,
  places,
  children,
  ...page
}: Omit<PageProps, 'fill'> & {
  /** "Pages of backup", for readers of screens. */
  label: string;
  /** The first one is that of the area itself. */
  places: readonly Place[];
}) {
  const { pathname } = useLocation();
  return (
    <Page {...page}>
      <nav aria-label={label} className={styles['places']}>
        {places.map(({ to, label: name, below }, place) => {
          const beginning = below ?? (place === 0 ? undefined : `${to}/`);
          const isHere = pathname === to || (beginning !== undefined && pathname.startsWith(beginning));
          return (
            <Link
              key={name}
              className={styles['place']}
              data-here={isHere || undefined}
              to={to}
              activeOptions={{ exact: true, includeSearch: false }}
            >
              {name}
            </Link>
          );
        })}
      </nav>
      {children}
    </Page>
  );
}
