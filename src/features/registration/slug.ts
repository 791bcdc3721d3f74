const BASE_LENGTH = 50;
const SUFFIXES = 100;

/** A company's name as part of an address (SPEC 4.9, rule 5). */
export function slugOf(companyName: string): string {
  const slug = companyName
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, BASE_LENGTH)
    .replaceAll(/^-+|-+$/g, '');
  // A name in another script leaves nothing over.
  return slug === '' ? 'company' : slug;
}

/** In the order in which they are tried: the slug itself, then with -1 to -100 behind it. */
export function slugCandidates(companyName: string): string[] {
  const base = slugOf(companyName);
  return [base, ...Array.from({ length: SUFFIXES }, (_value, index) => `${base}-${index + 1}`)];
}
